// What programs built with MAESTRO_SANITIZE ask of the address sanitizer. LLVM's headers poison the memory of its
// allocators in instrumented code, and Debian's LLVM, which is not instrumented, then uses that memory.
extern "C" __attribute__((visibility("default"), used)) const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}
