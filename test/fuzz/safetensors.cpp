// Opens the input as a safetensors file and reads every tensor as f32.
#include "executor/checkpoint/safetensors.h"

#include "input_file.h"

using namespace maestro;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  auto file = checkpoint::SafetensorsFile::open(test::InputFile::holding(bytes, size));
  if (!file)
    return 0;
  for (const checkpoint::TensorInfo &tensor : file->tensors()) {
    std::vector<std::byte> values(tensor.bytes / byteSize(tensor.dtype) * 4);
    Status status = file->readAs(tensor, DType::F32, values);
    if (file->findTied(tensor.name) != file->find(tensor.name) || status.code() == StatusCode::Internal)
      std::abort();
  }
  return 0;
}
