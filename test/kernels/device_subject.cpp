// The kernels of a GPU where they run: calls are programs of a CUDA device, with whatever driver there is.
#include "test/kernels/subject.h"

#include "cuda/context.h"
#include "executor/device/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

namespace maestro::kernels::test {
namespace {

using executor::Address;
using executor::CallDescription;
using executor::Device;
using executor::Queue;

constexpr uint64_t kBlockBytes = uint64_t{32} << 20; ///< For the operands of one call.
constexpr uint64_t kGuard = 256;
constexpr int kGuardByte = 0x5a;

/// The device, and memory on it; made anew after a failure, which a device keeps.
class Gpu {
public:
  Result<Device *> get() {
    if (device)
      return device.get();
    if (!kept) { // A context is made once: on a GPU that takes longer than most tests.
      MAESTRO_ASSIGN(kept, maestro::cuda::Context::open(0));
    }
    executor::CudaDeviceOptions options;
    MAESTRO_ASSIGN(device, executor::createCudaDevice(options));
    MAESTRO_ASSIGN(memory, device->allocate(kBlockBytes, "operands"));
    return device.get();
  }
  Address block() const { return memory; }
  void drop() { device.reset(); }

private:
  std::unique_ptr<maestro::cuda::Context> kept;
  std::unique_ptr<Device> device;
  Address memory;
};

Gpu &gpu() {
  static Gpu one;
  return one;
}

/// What a device keeps by reference.
std::string_view kept(std::string_view text) {
  static std::set<std::string, std::less<>> all;
  return *all.emplace(text).first;
}

class DeviceKernel : public Kernel {
public:
  explicit DeviceKernel(CallDescription call) : call(std::move(call)) {}

  Status run(std::span<const void *const> inputs, std::span<void *const> outputs, void *) override {
    Status status = runOn(inputs, outputs);
    if (status.isOk())
      return status;
    gpu().drop();
    // What a device says in front of a kernel's own words.
    std::string text(status.message()), prefix = std::string(call.kernel) + " (" + std::string(call.scope) + "): ";
    return {status.code(), text.starts_with(prefix) ? text.substr(prefix.size()) : text};
  }

private:
  /// Memory of the host, and its place on the device.
  struct Place {
    const void *host = nullptr;
    uint64_t bytes = 0, offset = 0;
  };

  Status runOn(std::span<const void *const> inputs, std::span<void *const> outputs) {
    MAESTRO_ASSIGN(Device * device, gpu().get());
    std::vector<Place> places;
    uint64_t end = kGuard;
    auto placeOf = [&](const void *host, const TensorType &type) {
      auto known = std::find_if(places.begin(), places.end(), [&](const Place &place) { return place.host == host; });
      if (known == places.end()) {
        known = places.insert(places.end(), {host, type.bytes(), end});
        end += (type.bytes() + 2 * kGuard - 1) / kGuard * kGuard + kGuard;
      }
      return gpu().block() + known->offset;
    };
    std::vector<Address> bases;
    for (size_t i = 0; i < inputs.size(); ++i)
      bases.push_back(call.inputTypes[i].present ? placeOf(inputs[i], call.inputTypes[i]) : Address());
    for (size_t i = 0; i < outputs.size(); ++i)
      bases.push_back(call.outputTypes[i].present ? placeOf(outputs[i], call.outputTypes[i]) : Address());
    if (end > kBlockBytes)
      return Status::internal("a test's operands are larger than its block");
    MAESTRO_ASSIGN(auto program, device->prepare({&call, 1}));
    std::vector<std::byte> image(end, static_cast<std::byte>(kGuardByte));
    for (const Place &place : places)
      if (place.bytes > 0)
        std::memcpy(image.data() + place.offset, place.host, place.bytes);
    device->write(Queue::Compute, gpu().block(), image.data(), end);
    device->launch(*program, bases, 0);
    std::vector<std::byte> found(end);
    device->read(Queue::Compute, found.data(), gpu().block(), end);
    MAESTRO_TRY(device->drain());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (call.outputTypes[i].present && call.outputTypes[i].bytes() > 0) {
        auto place = std::find_if(places.begin(), places.end(), [&](const Place &of) { return of.host == outputs[i]; });
        std::memcpy(outputs[i], found.data() + place->offset, place->bytes);
        std::copy_n(found.begin() + static_cast<ptrdiff_t>(place->offset), place->bytes,
                    image.begin() + static_cast<ptrdiff_t>(place->offset));
      }
    return found == image ? Status() : Status::internal(std::string(call.kernel) + " wrote outside of its results");
  }

  CallDescription call;
};

class DeviceLibrary : public Library {
public:
  std::string_view name() const override { return "cuda device"; }
  Result<std::unique_ptr<Kernel>> prepare(const CallSpec &spec) const override {
    CallDescription call;
    call.kernel = kept(spec.kernel);
    call.scope = "test";
    call.attributes.assign(spec.attributes.all().begin(), spec.attributes.all().end());
    call.inputTypes.assign(spec.inputs.begin(), spec.inputs.end());
    call.outputTypes.assign(spec.outputs.begin(), spec.outputs.end());
    uint32_t region = 0;
    auto add = [&](const TensorType &type, std::vector<executor::OperandRef> &operands) {
      operands.push_back({type.present ? region : executor::OperandRef::kAbsent, 0});
      ++region;
    };
    for (const TensorType &type : call.inputTypes)
      add(type, call.inputs);
    for (const TensorType &type : call.outputTypes)
      add(type, call.outputs);
    MAESTRO_ASSIGN(Device * device, gpu().get());
    MAESTRO_TRY(device->prepare({&call, 1}).takeStatus()); // Refused where the library does.
    return std::unique_ptr<Kernel>(std::make_unique<DeviceKernel>(std::move(call)));
  }
};

} // namespace

const Library &subject() {
  static DeviceLibrary library;
  return library;
}

} // namespace maestro::kernels::test
