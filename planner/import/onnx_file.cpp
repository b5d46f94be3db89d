#include "planner/import/onnx_file.h"

#include "planner/import/external_data.h"
#include "planner/import/graph_check.h"
#include "planner/import/wire_strip.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

namespace maestro::planner {
namespace {

/// What remains of a model without its weights; protobuf itself stops at 2 GiB.
constexpr uint64_t kMaxGraphBytes = uint64_t(1) << 30;

/// A file mapped for reading.
class MappedFile {
public:
  static Result<std::unique_ptr<MappedFile>> open(const std::string &path) {
    int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // A pipe does not wait for a writer.
    if (descriptor < 0)
      return Status::invalidInput(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
    struct stat info {};
    bool regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
    auto mapped = std::make_unique<MappedFile>();
    if (regular && info.st_size > 0) {
      void *address = ::mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
      if (address != MAP_FAILED)
        mapped->contents = {static_cast<const uint8_t *>(address), static_cast<size_t>(info.st_size)};
    }
    ::close(descriptor);
    if (!regular)
      return Status::invalidInput(fmt::format("{}: not a regular file", path));
    if (info.st_size > 0 && mapped->contents.empty())
      return Status::unavailable(fmt::format("{}: cannot be mapped into memory", path));
    return mapped;
  }
  ~MappedFile() {
    if (!contents.empty())
      ::munmap(const_cast<uint8_t *>(contents.data()), contents.size());
  }
  std::span<const uint8_t> bytes() const { return contents; }

private:
  std::span<const uint8_t> contents;
};

bool startsWith(std::span<const uint8_t> bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() && std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

/// Files that people hand over by mistake.
Status refuseForeign(std::span<const uint8_t> bytes) {
  if (bytes.empty())
    return Status::invalidInput("the file is empty; export the model again");
  struct Signature {
    std::string_view prefix, what;
  };
  static constexpr Signature kSignatures[] = {
      {"PK\x03\x04", "a zip archive (a PyTorch checkpoint or exported program?)"},
      {"\x7f"
       "ELF",
       "a program"},
      {"\x80\x02", "a Python pickle"},
      {"\x1f\x8b", "a gzip file"},
      {"GGUF", "a GGUF file"},
      {"version https://git-lfs", "a Git LFS pointer (run `git lfs pull`)"},
      {"<", "markup"},
      {"{", "JSON text"},
  };
  for (const Signature &signature : kSignatures)
    if (startsWith(bytes, signature.prefix))
      return Status::invalidInput(
          fmt::format("not an ONNX model but {}; give the file that torch.onnx.export wrote", signature.what));
  return {};
}

Result<std::unique_ptr<onnx::ModelProto>> parseModel(const std::string &stripped) {
  if (stripped.size() > kMaxGraphBytes)
    return Status::invalidInput(fmt::format("the graph without its weights takes {} bytes, above the limit of {}; "
                                            "strip stack traces and large constants",
                                            stripped.size(), kMaxGraphBytes));
  auto model = std::make_unique<onnx::ModelProto>();
  google::protobuf::io::ArrayInputStream stream(stripped.data(), static_cast<int>(stripped.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(static_cast<int>(kMaxGraphBytes));
  if (!model->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return Status::invalidInput("not an ONNX model: its fields do not match the format's (a damaged or foreign file)");
  return model;
}

/// The kInlineDataKey entries that stripWeights() left: none, one, or (never from real exporters) more.
Result<std::optional<TensorSource>> inlineSource(const onnx::TensorProto &tensor, const std::string &path,
                                                 uint64_t fileBytes) {
  std::optional<TensorSource> source;
  int entries = 0;
  for (const auto &entry : tensor.external_data()) {
    if (entry.key() != kInlineDataKey)
      continue;
    ++entries;
    TensorSource found{path, 0, 0};
    const std::string &text = entry.value();
    const char *end = text.data() + text.size();
    auto [colon, error] = std::from_chars(text.data(), end, found.offset);
    if (error != std::errc() || colon == end || *colon != ':' ||
        std::from_chars(colon + 1, end, found.length).ptr != end || found.length > fileBytes ||
        found.offset > fileBytes - found.length)
      return Status::invalidInput(fmt::format("tensor '{}' has a malformed {} entry", tensor.name(), kInlineDataKey));
    source = found;
  }
  if (entries <= 1)
    return source;
  if (source->length > kKeptTensorBytes || tensor.raw_data().empty())
    return Status::invalidInput(
        fmt::format("tensor '{}' keeps its data in {} pieces; write it as one raw_data", tensor.name(), entries));
  return std::optional<TensorSource>();
}

} // namespace

OnnxFile::OnnxFile(std::string path, std::unique_ptr<onnx::ModelProto> model, uint64_t fileBytes)
    : pathText(std::move(path)), proto(std::move(model)), fileBytes(fileBytes) {}
OnnxFile::OnnxFile(OnnxFile &&) noexcept = default;
OnnxFile &OnnxFile::operator=(OnnxFile &&) noexcept = default;
OnnxFile::~OnnxFile() = default;

const onnx::GraphProto &OnnxFile::graph() const { return proto->graph(); }

Result<std::optional<TensorSource>> OnnxFile::locate(const onnx::TensorProto &tensor) const {
  MAESTRO_ASSIGN(uint64_t elements, elementCount(tensor));
  std::optional<DType> dtype = dtypeFromOnnx(tensor.data_type());
  if (!dtype)
    return Status::invalidInput(fmt::format("tensor '{}' has element type {}, which is not supported", tensor.name(),
                                            onnxTypeName(tensor.data_type())));
  uint64_t bytes = elements * byteSize(*dtype);
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    MAESTRO_ASSIGN(TensorSource source, locateExternalData(tensor, pathText, bytes));
    return std::optional(source);
  }
  MAESTRO_ASSIGN(std::optional<TensorSource> source, inlineSource(tensor, pathText, fileBytes));
  if (source && source->length != bytes)
    return Status::invalidInput(fmt::format("tensor '{}' holds {} bytes, but its shape and element type need {}",
                                            tensor.name(), source->length, bytes));
  return source;
}

Result<OnnxFile> parseOnnx(std::span<const uint8_t> bytes, const std::string &path) {
  MAESTRO_TRY(refuseForeign(bytes).withContext(path));
  auto stripped = stripWeights(bytes);
  if (!stripped)
    return std::move(stripped).takeStatus().withContext(path);
  auto model = parseModel(*stripped);
  if (!model)
    return std::move(model).takeStatus().withContext(path);
  OnnxFile file(path, std::move(*model), bytes.size());
  MAESTRO_TRY(checkModel(*file.proto, file.opsetVersion).withContext(path));
  for (const onnx::TensorProto &tensor : file.graph().initializer()) {
    auto source = file.locate(tensor);
    if (!source)
      return std::move(source).takeStatus().withContext(path);
  }
  return file;
}

Result<OnnxFile> readOnnxFile(const std::string &path) {
  MAESTRO_ASSIGN(auto mapped, MappedFile::open(path));
  return parseOnnx(mapped->bytes(), path);
}

std::optional<DType> dtypeFromOnnx(int32_t dataType) {
  using T = onnx::TensorProto;
  switch (dataType) {
  case T::FLOAT:
    return DType::F32;
  case T::DOUBLE:
    return DType::F64;
  case T::BFLOAT16:
    return DType::BF16;
  case T::FLOAT16:
    return DType::F16;
  case T::INT64:
    return DType::I64;
  case T::INT32:
    return DType::I32;
  case T::INT16:
    return DType::I16;
  case T::INT8:
    return DType::I8;
  case T::UINT8:
    return DType::U8;
  case T::BOOL:
    return DType::Bool;
  default:
    return std::nullopt;
  }
}

std::string onnxTypeName(int32_t dataType) {
  if (onnx::TensorProto::DataType_IsValid(dataType))
    return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(dataType));
  return fmt::format("{}", dataType);
}

Result<uint64_t> elementCount(const onnx::TensorProto &tensor) {
  constexpr uint64_t kMaxElements = uint64_t(1) << 48;
  uint64_t count = 1;
  for (int64_t dim : tensor.dims()) {
    if (dim < 0 || (dim > 0 && count > kMaxElements / static_cast<uint64_t>(dim)))
      return Status::invalidInput(
          fmt::format("tensor '{}' has a dim of {}, which no tensor of at most 2^48 elements has", tensor.name(), dim));
    count *= static_cast<uint64_t>(dim);
  }
  return count;
}

} // namespace maestro::planner
