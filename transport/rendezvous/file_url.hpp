#pragma once

#include <string>
#include <string_view>

namespace troupe::transport {

/// Which file a "file://" URL names: one of this system, or one of Windows, which is only
/// understood (RFC 8089 and its appendix E; the forms of torch.distributed).
struct file_url {
  enum class form {
    path,   ///< file:///PATH, file://localhost/PATH
    drive,  ///< file:///C:/PATH, also C|, file://C:/PATH and with backslashes
    share,  ///< file://MACHINE/SHARE/PATH, file://////MACHINE/SHARE/PATH, file://\\MACHINE\...
    none,   ///< no absolute path of a file
  };

  form kind = form::none;
  std::string path;   ///< absolute; of Windows with slashes and without drive or machine and share
  std::string drive;  ///< "C:"
  std::string machine;
  std::string share;
};

/// `rest` is what stands behind "file://". A path of this system is taken as it is; of the others'
/// forms "%20" and the like are read.
file_url parse_file_url(std::string_view rest);

/// Why the file cannot be opened here, and what to write; empty for `form::path`.
std::string file_url_problem(const file_url& url);

}  // namespace troupe::transport
