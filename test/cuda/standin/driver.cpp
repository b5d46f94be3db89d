// A stand-in for libcuda.so.1 on a machine without a GPU: whatever is asked of it succeeds, and nothing happens. cuDNN
// plans graphs for a GPU that is only described, and compiles their kernels, but wants a driver to load them into.
//
// It is no fake: nothing runs on it (test/cuda/fake does that).
#include <cstring>

extern "C" {

static char thing[256]; // What handles point at.
static void *table[64]; // Of functions without names: its size in bytes, then none of them.
static int succeed() { return 0; }
static int give(void **handle) {
  *handle = thing;
  return 0;
}
static int tellError(int, const char **text) {
  *text = "the stand-in for a driver";
  return 0;
}

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}
int cuGetExportTable(const void **result, const void *) {
  table[0] = reinterpret_cast<void *>(sizeof(void *));
  *result = table;
  return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int, unsigned long, void *found);
int cuGetProcAddress(const char *name, void **function, int version, unsigned long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

/// By name where the answer matters.
int cuGetProcAddress_v2(const char *name, void **function, int, unsigned long, void *found) {
  static const struct {
    const char *name;
    void *function;
  } kKnown[] = {{"cuDriverGetVersion", reinterpret_cast<void *>(cuDriverGetVersion)},
                {"cuGetProcAddress", reinterpret_cast<void *>(cuGetProcAddress_v2)},
                {"cuGetExportTable", reinterpret_cast<void *>(cuGetExportTable)},
                {"cuGetErrorName", reinterpret_cast<void *>(tellError)},
                {"cuGetErrorString", reinterpret_cast<void *>(tellError)},
                {"cuModuleLoadData", reinterpret_cast<void *>(give)},
                {"cuModuleLoadDataEx", reinterpret_cast<void *>(give)},
                {"cuModuleLoadFatBinary", reinterpret_cast<void *>(give)},
                {"cuModuleGetFunction", reinterpret_cast<void *>(give)},
                {"cuLibraryLoadData", reinterpret_cast<void *>(give)},
                {"cuLibraryGetKernel", reinterpret_cast<void *>(give)},
                {"cuLibraryGetModule", reinterpret_cast<void *>(give)},
                {"cuKernelGetFunction", reinterpret_cast<void *>(give)},
                {"cuCtxGetCurrent", reinterpret_cast<void *>(give)},
                {"cuDevicePrimaryCtxRetain", reinterpret_cast<void *>(give)},
                {"cuStreamGetCtx", reinterpret_cast<void *>(give)}};
  *function = reinterpret_cast<void *>(succeed);
  for (const auto &known : kKnown)
    if (std::strcmp(name, known.name) == 0)
      *function = known.function;
  if (found)
    *static_cast<int *>(found) = 0; // Found, of the version that was asked for.
  return 0;
}

// What is asked for by dlsym.
int cuGetErrorName(int error, const char **text) { return tellError(error, text); }
int cuGetErrorString(int error, const char **text) { return tellError(error, text); }
#define MAESTRO_SUCCEEDS(name)                                                                                         \
  int name() { return 0; }
#define MAESTRO_GIVES(name)                                                                                            \
  int name(void **handle) { return give(handle); }
MAESTRO_GIVES(cuCtxGetCurrent)
MAESTRO_GIVES(cuStreamGetCtx)
MAESTRO_GIVES(cuLibraryLoadData)
MAESTRO_GIVES(cuLibraryGetKernel)
MAESTRO_GIVES(cuKernelGetFunction)
MAESTRO_SUCCEEDS(cuCtxGetLimit)
MAESTRO_SUCCEEDS(cuCtxPopCurrent)
MAESTRO_SUCCEEDS(cuCtxPushCurrent)
MAESTRO_SUCCEEDS(cuDeviceGet)
MAESTRO_SUCCEEDS(cuDeviceGetCount)
MAESTRO_SUCCEEDS(cuKernelGetAttribute)
MAESTRO_SUCCEEDS(cuKernelSetAttribute)
MAESTRO_SUCCEEDS(cuLaunchCooperativeKernel)
MAESTRO_SUCCEEDS(cuLaunchKernel)
MAESTRO_SUCCEEDS(cuLaunchKernelEx)
MAESTRO_SUCCEEDS(cuLibraryLoadFromFile)
MAESTRO_SUCCEEDS(cuLibraryUnload)
MAESTRO_SUCCEEDS(cuLinkAddData)
MAESTRO_SUCCEEDS(cuLinkComplete)
MAESTRO_SUCCEEDS(cuLinkCreate)
MAESTRO_SUCCEEDS(cuLinkDestroy)
MAESTRO_SUCCEEDS(cuOccupancyMaxPotentialClusterSize)
}
