#pragma once

#include <string>
#include <string_view>

namespace troupe::transport {

/// The file that a "file://" URL names: of this system, or of Windows, whose forms are recognised
/// but not opened (RFC 8089 and its appendix E; the forms of torch.distributed).
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

/// `rest` is the part behind "file://". A path of this system is taken literally; in the other
/// forms "%20" and the like are decoded.
file_url parse_file_url(std::string_view rest);

/// Why the file cannot be opened here, and what to write instead; empty for `form::path`.
std::string file_url_problem(const file_url& url);

}  // namespace troupe::transport
