#include "troupe/actors/groups/tracing/trace.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "troupe/actors/groups/tracing/call_details.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

using json = nlohmann::ordered_json;

json operation_json(const operation_record& one) {
  json out{{"id", one.id},
           {"kind", to_string(one.kind)},
           {"state", to_string(one.state)},
           {"sequence", one.sequence},
           {"dtype", c10::toString(one.dtype)}};
  if (reduces(one.kind)) out["reduction"] = to_string(one.reduction);
  out["inputs"] = one.inputs;
  out["outputs"] = one.outputs;
  if (has_root(one.kind)) out["root"] = one.root;
  if (one.kind == operation_kind::send || one.kind == operation_kind::recv) {
    out["peer"] = one.root;
    out["tag"] = one.tag;
  }
  if (one.detail) {
    out["input_shapes"] = one.detail->inputs;
    out["output_shapes"] = one.detail->outputs;
    out["stack"] = one.detail->stack_text();
  }
  out["scheduled_ns"] = one.scheduled_ns;
  out["started_ns"] = one.started_ns;
  out["ended_ns"] = one.ended_ns;
  return out;
}

// FNV-1a (Fowler, Noll, Vo), to tell names apart.
std::uint64_t hash_of(const std::string& text) noexcept {
  std::uint64_t out = 14695981039346656037u;
  for (const unsigned char c : text) out = (out ^ c) * 1099511628211u;
  return out;
}

// Names of groups have characters that a file's cannot have, and list ranks without end. What is
// changed or cut gets a number, as another name may become the same.
std::string file_name(const trace_header& about) {
  constexpr std::size_t longest = 100;
  auto out = about.group.substr(0, longest);
  for (auto& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  if (out != about.group) out += fmt::format("_{:016x}", hash_of(about.group));
  return fmt::format("{}_rank{}.json", out, about.rank);
}

}  // namespace

std::string trace_json(const trace_header& about, const std::vector<operation_record>& operations) {
  json members = json::array();
  for (std::size_t rank = 0; rank < about.members.size(); ++rank) {
    const auto& one = about.members[rank];
    json member{{"rank", rank}, {"node", one.node}, {"name", one.name}};
    if (one.actor != 0) member["actor"] = one.actor;
    members.push_back(std::move(member));
  }
  json all = json::array();
  for (const auto& one : operations) all.push_back(operation_json(one));
  const json document{
      {"version", 1},
      {"group", about.group},
      {"description", about.description},
      {"rank", about.rank},
      {"members", std::move(members)},
      {"failure", about.failure ? describe(about.failure, {}, {}).text : std::string()},
      {"last_sequence", about.last_sequence},
      {"last_completed", about.last_completed},
      {"operations", std::move(all)}};
  // Texts of other nodes may be no UTF-8.
  return document.dump(1, ' ', false, json::error_handler_t::replace) + '\n';
}

std::string write_trace_file(const std::string& directory, const trace_header& about,
                             const std::vector<operation_record>& operations) {
  const auto path = std::filesystem::path(directory) / file_name(about);
  auto part = path;
  part += ".part" + std::to_string(getpid());
  {
    std::ofstream out(part, std::ios::binary);
    out << trace_json(about, operations);
    out.close();
    if (!out)
      throw std::system_error(std::make_error_code(std::errc::io_error),
                              "cannot write " + part.string());
  }
  std::filesystem::rename(part, path);
  return path.string();
}

}  // namespace troupe::groups
