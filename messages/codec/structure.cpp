#include "troupe/messages/codec/structure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace troupe {

namespace {

// Between a type's name and what it is.
constexpr char behind_name = '\t';

// At most so many types are named in a sentence.
constexpr std::size_t most_types = 3;

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(at), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

struct description {
  std::string_view name;
  std::string_view what;
};

description split_description(std::string_view one) {
  const auto end = std::min(one.find(behind_name), one.size());
  return {one.substr(0, end), one.substr(std::min(end + 1, one.size()))};
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string readable(std::string_view structure) {
  std::string out;
  for (const auto line : split(structure, type_structure::separator)) {
    const auto one = split_description(line);
    if (!out.empty()) out += "; ";
    out.append(one.name).append(" is ").append(one.what);
  }
  return out;
}

}  // namespace

void type_structure::fields(std::initializer_list<std::string_view> types, std::string_view names) {
  const auto split_names = split(names, ',');
  text_ += behind_name;
  text_ += '{';
  std::size_t i = 0;
  for (const auto type : types) {
    if (i > 0) text_ += ", ";
    text_ += type;
    if (i < split_names.size()) text_.append(" ").append(without_blanks(split_names[i]));
    ++i;
  }
  text_ += '}';
}

void type_structure::number(std::string_view type) {
  text_ += behind_name;
  text_.append("an enum of ").append(type);
}

void type_structure::opaque(std::size_t size) {
  text_ += behind_name;
  text_.append(std::to_string(size)).append(" bytes");
}

void type_structure::schema(std::uint64_t id) {
  text_ += behind_name;
  text_ += fmt::format("of the schema {:#018x}", id);
}

std::string difference(std::string_view there, std::string_view on_there, std::string_view here,
                       std::string_view on_here) {
  const auto theirs = split(there, type_structure::separator);
  const auto ours = split(here, type_structure::separator);
  std::string out;
  std::size_t found = 0;
  for (const auto line : theirs) {
    const auto their = split_description(line);
    const auto place = std::find_if(ours.begin(), ours.end(), [&](std::string_view one) {
      return split_description(one).name == their.name;
    });
    if (place == ours.end() || *place == line || ++found > most_types) continue;
    if (!out.empty()) out += "; ";
    out.append(their.name).append(" is ").append(their.what).append(" on ").append(on_there);
    out.append(" and ").append(split_description(*place).what).append(" on ").append(on_here);
  }
  if (found > most_types) out += "; and " + std::to_string(found - most_types) + " more types";
  return out;
}

namespace {

constexpr auto question = ": do all nodes run the same program? Build it from the same source. ";

std::string not_the_same(std::string_view name, const std::string& sender,
                         const std::string& receiver) {
  return std::string(name) + " is not the same on " + sender + " and on " + receiver + question;
}

}  // namespace

fault mismatch_of(std::string_view name, const std::string& sender, const std::string& receiver,
                  std::string_view structure) {
  fault why;
  why.code = errc::type_mismatch;
  why.node = receiver;
  why.text = not_the_same(name, sender, receiver);
  if (!structure.empty()) why.text += "On " + receiver + ": " + readable(structure);
  why.trace.append(name).append(1, type_structure::separator).append(structure);
  return why;
}

std::string_view name_in_mismatch(const fault& why) {
  const std::string_view all = why.trace;
  return all.substr(0, all.find(type_structure::separator));
}

void complete_mismatch(fault& why, const std::string& sender, std::string_view structure) {
  const auto name = name_in_mismatch(why);
  std::string_view theirs = why.trace;
  theirs.remove_prefix(std::min(name.size() + 1, theirs.size()));
  if (const auto found = difference(theirs, why.node, structure, sender); !found.empty())
    why.text = not_the_same(name, sender, why.node) + found;
}

}  // namespace troupe
