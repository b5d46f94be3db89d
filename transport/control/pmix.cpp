#include "transport/control/pmix.h"

#include "base/loaded_library.h"
#include "base/log.h"
#include "transport/control/connection.h"
#include "transport/control/launch.h"
#include "transport/control/secret.h"
#include "transport/kept_signals.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <pmix.h>
#include <random>
#include <unistd.h>

namespace maestro::transport {
namespace {

constexpr const char *kLibrary = "libpmix.so.2";
constexpr const char *kKey = "maestro.meeting"; ///< "address port secret", of process 0.
constexpr int kPatienceSeconds = 120;           ///< Until all must have come.

struct Functions {
  decltype(&::PMIx_Init) init;
  decltype(&::PMIx_Finalize) finalize;
  decltype(&::PMIx_Put) put;
  decltype(&::PMIx_Commit) commit;
  decltype(&::PMIx_Fence) fence;
  decltype(&::PMIx_Get) get;
  decltype(&::PMIx_Error_string) text;
};

bool load(Functions &table) {
  LoadedLibrary library{kLibrary};
  library.find(table.init, "PMIx_Init");
  library.find(table.finalize, "PMIx_Finalize");
  library.find(table.put, "PMIx_Put");
  library.find(table.commit, "PMIx_Commit");
  library.find(table.fence, "PMIx_Fence");
  library.find(table.get, "PMIx_Get");
  library.find(table.text, "PMIx_Error_string");
  return library && library.missing().empty();
}

/// Between PMIx's start and its end.
class Session {
public:
  explicit Session(const Functions &pmix) : pmix(pmix) {}
  ~Session() {
    if (isOpen)
      (void)pmix.finalize(nullptr, 0);
  }

  Status open() {
    MAESTRO_TRY(check(pmix.init(&self, nullptr, 0), "PMIx_Init"));
    isOpen = true;
    return Status();
  }
  uint32_t rank() const { return self.rank; }

  /// Of the job.
  Result<uint32_t> number(const char *key) const {
    pmix_proc_t job = self;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_value_t *value = nullptr;
    MAESTRO_TRY(check(pmix.get(&job, key, nullptr, 0, &value), key));
    uint32_t number = value->data.uint32;
    bool isNumber = value->type == PMIX_UINT32;
    std::free(value);
    return isNumber ? Result<uint32_t>(number) : Status::unavailable(std::string("PMIx: ") + key + " is no number");
  }

  Status tell(const char *key, std::string text) {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = text.data();
    MAESTRO_TRY(check(pmix.put(PMIX_GLOBAL, key, &value), "PMIx_Put"));
    return check(pmix.commit(), "PMIx_Commit");
  }

  /// When all have come, with what they told.
  Status await() {
    pmix_info_t infos[2] = {};
    std::strncpy(infos[0].key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    infos[0].value.type = PMIX_BOOL;
    infos[0].value.data.flag = true;
    std::strncpy(infos[1].key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
    infos[1].value.type = PMIX_INT;
    infos[1].value.data.integer = kPatienceSeconds;
    return check(pmix.fence(nullptr, 0, infos, 2), "PMIx_Fence: not all processes of the job have come");
  }

  Result<std::string> hear(uint32_t rank, const char *key) const {
    pmix_proc_t of = self;
    of.rank = rank;
    pmix_value_t *value = nullptr;
    MAESTRO_TRY(check(pmix.get(&of, key, nullptr, 0, &value), "PMIx_Get: what process 0 has told"));
    std::string text = value->type == PMIX_STRING && value->data.string ? value->data.string : "";
    if (value->type == PMIX_STRING)
      std::free(value->data.string);
    std::free(value);
    return text;
  }

private:
  Status check(pmix_status_t status, const std::string &what) const {
    return status == PMIX_SUCCESS ? Status() : Status::unavailable(what + ": " + pmix.text(status));
  }

  const Functions &pmix;
  pmix_proc_t self{};
  bool isOpen = false;
};

/// Where process 0 listens later: nobody else looks for a port among these without trying it.
Result<uint16_t> freePort(const std::string &address) {
  std::random_device random;
  Status last;
  for (int tries = 0; tries < 100; ++tries) {
    auto port = static_cast<uint16_t>(kFirstJobPort + random() % kJobPorts);
    auto socket = listenAt(address, port);
    if (socket)
      return port;
    last = std::move(socket).takeStatus();
  }
  return last;
}

Result<std::string> meetingPlace(bool isOneMachine) {
  const char *interface = std::getenv("MAESTRO_INTERFACE");
  std::string address = isOneMachine ? "127.0.0.1" : outwardAddress();
  if (interface && *interface) {
    MAESTRO_ASSIGN(address, addressOfInterface(interface));
  }
  if (address.empty())
    return Status::unavailable("this machine, where process 0 is, has no address but loopback ones");
  MAESTRO_ASSIGN(uint16_t port, freePort(address));
  MAESTRO_ASSIGN(std::string secret, makeSecret());
  return address + " " + std::to_string(port) + " " + secret;
}

Status enter(uint32_t process, uint32_t processes, const std::string &place) {
  size_t port = place.find(' '), secret = place.rfind(' ');
  if (port == std::string::npos || port == secret)
    return Status::unavailable("PMIx: process 0 has told '" + place + "' instead of where it is met");
  ::setenv("RANK", std::to_string(process).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(processes).c_str(), 1);
  ::setenv("MASTER_ADDR", place.substr(0, port).c_str(), 1);
  ::setenv("MASTER_PORT", place.substr(port + 1, secret - port - 1).c_str(), 1);
  ::setenv(kPmixVariable, "1", 1);
  if (!std::getenv("MAESTRO_JOB_SECRET_FILE"))
    ::setenv("MAESTRO_JOB_SECRET", place.substr(secret + 1).c_str(), /*overwrite=*/0);
  return Status();
}

} // namespace

Status meetThroughPmix() {
  if (!std::getenv("PMIX_RANK") || !std::getenv("PMIX_NAMESPACE") || std::getenv("MASTER_ADDR"))
    return Status();
  KeptSignals kept;
  Functions pmix;
  if (!load(pmix)) {
    logWarning(std::string("the launcher speaks PMIx, and ") + kLibrary +
               " cannot be loaded; Debian: apt-get install libpmix2");
    return Status();
  }
  Session session(pmix);
  MAESTRO_TRY(session.open());
  MAESTRO_ASSIGN(uint32_t processes, session.number(PMIX_JOB_SIZE));
  if (processes < 2)
    return Status();
  if (session.rank() == 0) {
    auto here = session.number(PMIX_LOCAL_SIZE);
    MAESTRO_ASSIGN(std::string place, meetingPlace(here && *here == processes));
    MAESTRO_TRY(session.tell(kKey, place));
  }
  MAESTRO_TRY(session.await());
  MAESTRO_ASSIGN(std::string place, session.hear(0, kKey));
  return enter(session.rank(), processes, place);
}

} // namespace maestro::transport
