// Tar files as text, for tests that need odd or damaged ones.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace maestro::test {

/// The bytes of a member: a ustar header and its content in whole blocks.
inline std::string tarMember(std::string_view name, std::string_view content, char type = '0',
                             std::string_view link = "") {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 8, "0000644", 8);
  char size[13];
  std::snprintf(size, sizeof size, "%011lo", static_cast<unsigned long>(content.size()));
  header.replace(124, 12, size, 12);
  header.replace(136, 12, "00000000000", 12);
  header[156] = type;
  header.replace(157, link.size(), link);
  header.replace(257, 8, std::string_view("ustar\00000", 8));
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (unsigned char c : header)
    sum += c;
  char checksum[8];
  std::snprintf(checksum, sizeof checksum, "%06o", sum);
  header.replace(148, 7, checksum, 7);
  std::string member = header + std::string(content);
  member.resize((member.size() + 511) / 512 * 512, '\0');
  return member;
}

inline std::string tarEnd() { return std::string(1024, '\0'); }

/// A version 1 .npy file: npy("<i8", "(3,)", bytes).
inline std::string npy(std::string_view type, std::string_view shape, std::string_view values,
                       std::string_view order = "False") {
  std::string header = "{'descr': '" + std::string(type) + "', 'fortran_order': " + std::string(order) +
                       ", 'shape': " + std::string(shape) + ", }";
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + std::string(values);
}

template <typename T> std::string bytesOf(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char *>(values.begin()), values.size() * sizeof(T));
}

/// A shard with members of every format: arrays in both orders, numbers, links, what is damaged, what is no array.
inline std::string shardOfEverything() {
  std::string ids = npy("<i8", "(2,)", bytesOf<int64_t>({4, 5}));
  return tarMember("shared/label.cls", "7") + tarMember("a/x.ids.npy", ids) +
         tarMember("a/x.label.cls", "", '1', "shared/label.cls") + tarMember("a/x.photo.jpg", "pixels") +
         tarMember("b/y.m.npy", npy("<i4", "(2, 2)", bytesOf<int32_t>({1, 2, 3, 4}), "True")) +
         tarMember("b/y.ids.npy", "", '2', "../a/x.ids.npy") + tarMember("b/y.f.json", "2.5") +
         tarMember("b/y.t.json", "true") + tarMember("b/y.note.json", "{}") + tarMember("b/y.bad.npy", "no array") +
         tarMember("c.none.npy", npy("<f4", "(0, 9)", "")) + tarEnd();
}

} // namespace maestro::test
