// The geometry of attention, for both layouts.
#pragma once

#include "kernels/shape.h"

namespace maestro::kernels {

/// q [B, H, S, D], k [B, Hk, T, D], v [B, Hk, T, Dv], o [B, H, S, Dv], or with dims 1 and 2 swapped.
struct AttentionShape {
  int64_t batch, heads, keyHeads, queries, keys, depth, valueDepth;
  bool sequenceMajor;
  double scale, softcap;
  bool causal;
  int64_t causalOffset;
  Dims maskStrides{}; ///< Of the mask broadcast to [B, H, S, T].

  AttentionShape(const Attributes &attributes, const TensorType &q, const TensorType &k, const TensorType &v,
                 const TensorType *mask)
      : batch(q.dims[0]), sequenceMajor(attributes.getFlag("sequence_major")), scale(attributes.getFloat("scale", 1)),
        softcap(attributes.getFloat("softcap", 0)), causal(attributes.getFlag("causal")),
        causalOffset(attributes.getInt("causal_offset", 0)) {
    int head = sequenceMajor ? 2 : 1, sequence = sequenceMajor ? 1 : 2;
    heads = q.dims[head];
    keyHeads = k.dims[head];
    queries = q.dims[sequence];
    keys = k.dims[sequence];
    depth = q.dims[3];
    valueDepth = v.dims[3];
    if (mask) {
      Dims dense = denseStrides(mask->shape());
      int lead = 4 - mask->rank;
      for (int i = 0; i < mask->rank; ++i)
        maskStrides[lead + i] = mask->dims[i] == 1 ? 0 : dense[i];
    }
  }

  int64_t group() const { return heads / keyHeads; }
  /// The first element of row (b, h, i) of a tensor with `count` heads, `length` rows a head.
  int64_t row(int64_t b, int64_t h, int64_t i, int64_t count, int64_t length, int64_t width) const {
    return (sequenceMajor ? (b * length + i) * count + h : (b * count + h) * length + i) * width;
  }
  int64_t queryRow(int64_t b, int64_t h, int64_t i) const { return row(b, h, i, heads, queries, depth); }
  int64_t keyRow(int64_t b, int64_t h, int64_t j) const { return row(b, h, j, keyHeads, keys, depth); }
  int64_t valueRow(int64_t b, int64_t h, int64_t j) const { return row(b, h, j, keyHeads, keys, valueDepth); }
  int64_t resultRow(int64_t b, int64_t h, int64_t i) const { return row(b, h, i, heads, queries, valueDepth); }
  int64_t lseAt(int64_t b, int64_t h, int64_t i) const { return (b * heads + h) * queries + i; }
  int64_t maskAt(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * maskStrides[0] + h * maskStrides[1] + i * maskStrides[2] + j * maskStrides[3];
  }
  bool hidden(int64_t i, int64_t j) const { return causal && j > i + causalOffset; }
};

} // namespace maestro::kernels
