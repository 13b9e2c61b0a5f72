#include "troupe/apps/trace/dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "troupe/messages/base/error.hpp"

namespace troupe::trace {

namespace {

using parsed_json = nlohmann::json;

constexpr std::uintmax_t most_bytes = 64 << 20;
constexpr std::size_t most_members = 1 << 16;
constexpr std::size_t most_operations = 1 << 20;
constexpr std::size_t longest_text = 2000;

// What is wrong with a file; its name is added where the file is known.
struct flaw : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const parsed_json& member_of(const parsed_json& object, const char* name) {
  if (!object.is_object()) throw flaw(fmt::format("'{}' is asked of what is no object", name));
  const auto found = object.find(name);
  if (found == object.end()) throw flaw(fmt::format("it has no '{}'", name));
  return *found;
}

// For a terminal, which obeys some control characters: also those of two bytes, from C2 80 to C2
// 9F.
std::string printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) text[i] = text[i + 1] = ' ';
    if (c < ' ' || c == 0x7f) text[i] = ' ';
  }
  return text;
}

std::string text_of(const parsed_json& object, const char* name) {
  const auto& value = member_of(object, name);
  if (!value.is_string()) throw flaw(fmt::format("'{}' is no text", name));
  auto out = value.get<std::string>();
  if (out.size() > longest_text) {
    // Not within a character of several bytes. Errors at debug level detail have stacks of all
    // ranks.
    auto end = longest_text;
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xc0) == 0x80) --end;
    out.resize(end);
    out += "...";
  }
  return printable(std::move(out));
}

template <class Number>
Number number_of(const parsed_json& object, const char* name) {
  const auto& value = member_of(object, name);
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max()))
      return static_cast<Number>(number);
  } else if (value.is_number_integer() && std::is_signed_v<Number>) {
    const auto number = value.get<std::int64_t>();
    if (number >= static_cast<std::int64_t>(std::numeric_limits<Number>::min()))
      return static_cast<Number>(number);
  }
  throw flaw(fmt::format("'{}' is no number that can be", name));
}

const parsed_json& array_of(const parsed_json& object, const char* name, std::size_t most) {
  const auto& value = member_of(object, name);
  if (!value.is_array()) throw flaw(fmt::format("'{}' is no list", name));
  if (value.size() > most) throw flaw(fmt::format("'{}' has more than {} entries", name, most));
  return value;
}

progress state_of(const parsed_json& from) {
  const auto text = text_of(from, "state");
  if (text == "scheduled") return progress::scheduled;
  if (text == "started") return progress::started;
  if (text == "completed") return progress::completed;
  if (text == "failed") return progress::failed;
  throw flaw("an operation is in the state '" + text + "', which is none");
}

std::optional<std::int64_t> optional_number(const parsed_json& object, const char* name) {
  if (!object.contains(name)) return {};
  return number_of<std::int64_t>(object, name);
}

traced_operation operation_of(const parsed_json& from) {
  traced_operation out;
  out.kind = text_of(from, "kind");
  out.state = state_of(from);
  out.sequence = number_of<std::uint64_t>(from, "sequence");
  out.dtype = text_of(from, "dtype");
  if (from.contains("reduction")) out.reduction = text_of(from, "reduction");
  out.inputs = number_of<std::uint64_t>(from, "inputs");
  out.outputs = number_of<std::uint64_t>(from, "outputs");
  out.root = optional_number(from, "root");
  out.peer = optional_number(from, "peer");
  out.tag = optional_number(from, "tag").value_or(0);
  out.started_ns = number_of<std::int64_t>(from, "started_ns");
  out.ended_ns = number_of<std::int64_t>(from, "ended_ns");
  return out;
}

dump parsed(const std::string& text) {
  const auto document = parsed_json::parse(text, nullptr, false);
  if (document.is_discarded()) throw flaw("it is no JSON, or not all of it");
  if (number_of<std::uint32_t>(document, "version") != 1)
    throw flaw("it is of a version that this program does not know");
  dump out;
  out.group = text_of(document, "group");
  out.description = text_of(document, "description");
  out.failure = text_of(document, "failure");
  out.rank = number_of<std::uint32_t>(document, "rank");
  for (const auto& one : array_of(document, "members", most_members))
    out.members.push_back(text_of(one, "name"));
  if (out.rank >= out.members.size()) throw flaw("its rank is no member of its group");
  for (const auto& one : array_of(document, "operations", most_operations))
    out.operations.push_back(operation_of(one));
  out.asked = number_of<std::uint64_t>(document, "last_sequence");
  out.completed = number_of<std::uint64_t>(document, "last_completed");
  return out;
}

std::string read_whole(const std::filesystem::path& path) {
  std::error_code wrong;
  const auto bytes = std::filesystem::file_size(path, wrong);
  if (wrong)
    throw invalid_argument(printable(path.string()) + " cannot be read: " + wrong.message());
  if (bytes > most_bytes)
    throw invalid_argument(fmt::format("{} is no trace: it has more than {} MiB",
                                       printable(path.string()), most_bytes >> 20));
  std::ifstream file(path, std::ios::binary);
  std::string out(bytes, '\0');
  if (!file.read(out.data(), static_cast<std::streamsize>(bytes)))
    throw invalid_argument(printable(path.string()) + " cannot be read");
  return out;
}

void add_files(std::vector<std::filesystem::path>& files, const std::string& path) {
  std::error_code wrong;
  if (!std::filesystem::is_directory(path, wrong)) {
    files.emplace_back(path);
    return;
  }
  const auto before = files.size();
  for (std::filesystem::directory_iterator at(path, wrong), end; !wrong && at != end;
       at.increment(wrong))
    if (at->path().extension() == ".json") files.push_back(at->path());
  if (wrong) throw invalid_argument(path + " cannot be read: " + wrong.message());
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
}

}  // namespace

const std::string& dump::name_of(std::uint32_t of) const {
  static const std::string none;
  return of < members.size() ? members[of] : none;
}

dump read_dump(const std::string& text, const std::string& file) {
  try {
    auto out = parsed(text);
    out.file = printable(file);
    return out;
  } catch (const flaw& why) {
    throw invalid_argument(printable(file) + " is no trace of a group: " + why.what());
  }
}

std::vector<dump> read_dumps(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) add_files(files, path);
  if (files.empty())
    throw invalid_argument("there is no trace (*.json): set TROUPE_TRACE_DIR, or call write_trace");
  std::vector<dump> out;
  std::map<std::pair<std::string, std::uint32_t>, std::string> known;
  for (const auto& file : files) {
    out.push_back(read_dump(read_whole(file), file.string()));
    const auto [at, is_new] = known.try_emplace({out.back().group, out.back().rank}, file.string());
    if (!is_new)
      throw invalid_argument(fmt::format("{} and {} are both of rank {} of group {}: give one run",
                                         at->second, file.string(), out.back().rank,
                                         out.back().group));
  }
  return out;
}

}  // namespace troupe::trace
