#include "base/system_failure.h"

#include <cerrno>
#include <cstring>

namespace maestro {

Status systemFailure(std::string_view action, std::string_view path, int error) {
  std::string_view remedy;
  if (error == ENOSPC || error == EDQUOT)
    remedy = "; free space there, or choose another folder with --out";
  else if (error == EFBIG)
    remedy = "; raise the file size limit (ulimit -f)";
  else if (error == EACCES || error == EPERM || error == EROFS)
    remedy = "; choose a folder that can be written with --out";
  std::string text = "cannot ";
  text.append(action).append(" '").append(path).append("': ").append(std::strerror(error)).append(remedy);
  return Status::unavailable(std::move(text));
}

} // namespace maestro
