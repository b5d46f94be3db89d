// The plan verifier: a plan is untrusted input, and this is its only gate.
//
// It checks bytes first (every offset, vector and string lies in the file; alignment; depth and number of
// tables), then identity and version, then meaning. What holds afterwards, so that nobody checks it again:
//
// - every index refers to an element that exists, every enum has a known value, names are unique and fit
//   to be printed, component names are fit to be file names;
// - symbolic integers refer to earlier ones, and those that an executable uses can be evaluated at its bounds;
// - every buffer lies in its region and holds its shape at the bounds, a fixed shape exactly; there is one region
//   of a kind; constants have their bytes;
// - programs read only what was written: by the plan, a binding, an earlier call, or an earlier program whose
//   results live on; regions are written only by the programs that may; results do not overlap operands,
//   except exactly and in the same shape. All of it in the bytes that a buffer may take in any micro-batch;
// - bindings are complete for the losses, the optimizer and the fields; bound buffers have the type and
//   shape that the executor writes, by the same expressions; the ranges of parameters' sources lie in their files;
// - collectives stand only where all ranks of a station meet, with their attributes;
// - sections, edges, executables, stations and ranks agree; training numbers are finite and in range.
//
// What it cannot know stays with others: kernels' operands and attributes, and which operand a result may lie over,
// are checked when a call is prepared; a micro-batch's own sizes when it is bound (Buffer.bytes); values of data when
// they are read, files when they are opened.
//
// Time and memory are linear in the file's size: all work is counted before it is made (verify/work.h).
#pragma once

#include "base/status.h"

#include <cstdint>
#include <span>

namespace maestro::plan {

/// InvalidInput with `plan.executables[0].buffers[12].offset: …`, naming value, limit and remedy; nothing is read
/// outside of `bytes`, which must be aligned to kAlignment.
Status verify(std::span<const uint8_t> bytes);

} // namespace maestro::plan
