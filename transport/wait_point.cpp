#include "transport/wait_point.h"

#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace maestro::transport {

// Without FUTEX_PRIVATE_FLAG: the word is known by its page, not by this process's address of it.
void WaitPoint::wake() { syscall(SYS_futex, &epochWord, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void WaitPoint::sleep(uint32_t seen, int64_t timeoutNs) {
  timespec timeout{static_cast<time_t>(timeoutNs / 1'000'000'000), static_cast<long>(timeoutNs % 1'000'000'000)};
  syscall(SYS_futex, &epochWord, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

} // namespace maestro::transport
