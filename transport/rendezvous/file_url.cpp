#include "troupe/transport/rendezvous/file_url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace troupe::transport {

namespace {

// "a%20b" becomes "a b", and backslashes slashes; a percent sign without two hex digits stays.
std::string read_windows_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      unsigned char byte = 0;
      const auto* end = text.data() + i + 3;
      if (std::from_chars(text.data() + i + 1, end, byte, 16).ptr == end) {
        out += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  std::ranges::replace(out, '\\', '/');
  return out;
}

// Whether it begins with "C:" or "C|", and then ends or goes on with a slash.
bool begins_with_drive(std::string_view text) {
  return text.size() >= 2 && std::isalpha(static_cast<unsigned char>(text[0])) &&
         (text[1] == ':' || text[1] == '|') && (text.size() == 2 || text[2] == '/');
}

bool names_a_file(std::string_view path) { return path.starts_with('/') && !path.ends_with('/'); }

file_url on_drive(std::string_view text) {
  file_url out;
  out.drive = {text[0], ':'};
  out.path = text.substr(2);
  if (names_a_file(out.path)) out.kind = file_url::form::drive;
  return out;
}

// `text` is MACHINE/SHARE/PATH.
file_url on_share(std::string_view text) {
  file_url out;
  const auto machine = text.find('/');
  if (machine == 0 || machine == text.npos) return out;
  out.machine = text.substr(0, machine);
  text.remove_prefix(machine + 1);
  const auto share = text.find('/');
  if (share == 0 || share == text.npos) return out;
  out.share = text.substr(0, share);
  out.path = text.substr(share);
  if (names_a_file(out.path)) out.kind = file_url::form::share;
  return out;
}

}  // namespace

file_url parse_file_url(std::string_view rest) {
  const auto windows = read_windows_text(rest);
  const std::string_view text = windows;
  if (begins_with_drive(text)) return on_drive(text);
  if (text.starts_with('/') && begins_with_drive(text.substr(1))) return on_drive(text.substr(1));
  // With fewer slashes it is a path of this system: //tmp is /tmp.
  if (text.starts_with("////")) return on_share(text.substr(4));
  if (rest.starts_with("\\\\")) return on_share(text.substr(2));
  constexpr std::string_view here = "localhost/";
  if (rest.starts_with(here)) rest.remove_prefix(here.size() - 1);
  if (!rest.starts_with('/')) return on_share(text);
  file_url out;
  if (!names_a_file(rest)) return out;
  out.kind = file_url::form::path;
  out.path = rest;
  return out;
}

std::string file_url_problem(const file_url& url) {
  switch (url.kind) {
    case file_url::form::path: return {};
    case file_url::form::drive:
      return fmt::format(
          "it names {} on drive {} of Windows, which this system does not have: name a path that "
          "begins with / and is not a drive's, file:///PATH",
          url.path, url.drive);
    case file_url::form::share:
      return fmt::format(
          "it names {} in share '{}' of machine '{}', which cannot be opened by that name here: "
          "mount the share, and name the path below the mount, file:///MOUNT{}",
          url.path, url.share, url.machine, url.path);
    case file_url::form::none: break;
  }
  return "there is no absolute path of a file";
}

}  // namespace troupe::transport
