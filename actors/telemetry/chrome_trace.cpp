#include "troupe/actors/telemetry/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <ostream>

#include "troupe/actors/profiling/event_collector.hpp"
#include "troupe/messages/base/utf8.hpp"

namespace troupe {

namespace {

// Names come from other nodes too: they may be invalid UTF-8.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto length = bytes_of_character(text);
    const auto c = text.front();
    if (length == 0)
      out += "\\ufffd";
    else if (c == '"' || c == '\\')
      out.append("\\").push_back(c);
    else if (length == 1 && static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out.append(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out.append("\"");
}

// Three digits after the point are exact. A time before the beginning of the trace becomes 0.
std::string trace_time(std::int64_t ns) {
  ns = std::max<std::int64_t>(ns, 0);
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::string sizes_of(const profile_event& one) {
  std::string out = "[";
  for (const auto& sizes : one.shapes)
    out += fmt::format("{}[{}]", out.size() > 1 ? "," : "", fmt::join(sizes, ","));
  return out + "]";
}

std::string details_of(const profile_event& one) {
  auto out = fmt::format("{{\"node_id\":{},\"remote\":{}", one.node, one.remote);
  if (one.number >= 0) out += fmt::format(",\"Sequence number\":{}", one.number);
  if (!one.shapes.empty()) out += ",\"Input Dims\":" + sizes_of(one);
  if (one.host_bytes != 0) out += fmt::format(",\"Bytes\":{}", one.host_bytes);
  if (one.device_bytes != 0) out += fmt::format(",\"Device Bytes\":{}", one.device_bytes);
  return out + "}";
}

// `start`: since the beginning of the trace.
void write_event(std::ostream& out, const profile_event& one, std::int64_t start,
                 std::uint64_t number) {
  const auto head =
      fmt::format("\"name\":{},\"pid\":{},\"tid\":{}", json_text(one.name), one.node, one.thread);
  if (!one.async) {
    out << fmt::format(",\n{{\"ph\":\"X\",\"cat\":\"cpu_op\",{},\"ts\":{},\"dur\":{},\"args\":{}}}",
                       head, trace_time(start), trace_time(one.duration_ns), details_of(one));
    return;
  }
  out << fmt::format(",\n{{\"ph\":\"b\",\"cat\":\"rpc\",\"id\":{},{},\"ts\":{},\"args\":{}}}",
                     number, head, trace_time(start), details_of(one));
  out << fmt::format(",\n{{\"ph\":\"e\",\"cat\":\"rpc\",\"id\":{},{},\"ts\":{}}}", number, head,
                     trace_time(start + one.duration_ns));
}

}  // namespace

std::chrono::nanoseconds clock_ahead(const node& here, const destination& there, int samples) {
  if (samples < 1) throw invalid_argument("clock_ahead takes at least one sample");
  std::int64_t quickest = INT64_MAX, ahead = 0;
  for (int i = 0; i < samples; ++i) {
    const auto before = detail::profile_time();
    const auto theirs = here.rpc_sync<&detail::profile_time>(there);
    const auto after = detail::profile_time();
    if (after < before || after - before >= quickest) continue;  // it may have been set back
    quickest = after - before;
    ahead = theirs - (before + quickest / 2);
  }
  return std::chrono::nanoseconds(ahead);
}

void write_chrome_trace(std::ostream& out, const std::vector<node_profile>& profiles,
                        const worker_list& workers) {
  std::int64_t first = INT64_MAX;
  std::map<std::uint32_t, std::string> names;
  for (const auto& one : profiles)
    for (const auto& event : one.events) {
      first = std::min(first, event.start_ns - one.clock_ahead.count());
      names.emplace(event.node, fmt::format("rank {}", event.node));
    }
  for (const auto& worker : workers)
    if (auto place = names.find(worker.id); place != names.end()) place->second = worker.name;
  // The first event belongs to no node, so that the others can begin with a comma.
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
         "{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,\"args\":{}}";
  for (const auto& [rank, name] : names) {
    out << fmt::format(
        ",\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":{}}}}}", rank,
        json_text(name));
    out << fmt::format(
        ",\n{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{0},\"args\":{{\"sort_index\":{"
        "0}}}}}",
        rank);
  }
  std::uint64_t number = 0;
  for (const auto& one : profiles)
    for (const auto& event : one.events)
      write_event(out, event, event.start_ns - one.clock_ahead.count() - first, ++number);
  out << "\n]}\n";
}

void write_chrome_trace(const std::string& path, const std::vector<node_profile>& profiles,
                        const worker_list& workers) {
  std::ofstream out(path);
  if (out) write_chrome_trace(out, profiles, workers);
  if (!out.flush())
    throw invalid_argument("the trace " + path + " cannot be written: does its folder exist?");
}

}  // namespace troupe
