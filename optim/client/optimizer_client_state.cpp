// The state of a distributed optimizer, to a file and back.

#include <fmt/format.h>

#include "troupe/actors/node/node_core.hpp"
#include "troupe/optim/client/optimizer_client.hpp"
#include "troupe/optim/client/shard_requests.hpp"
#include "troupe/optim/state/state_file.hpp"

namespace troupe::detail {

void optimizer_client::save(const std::string& file) const {
  const auto core = here();
  send(next_rates(*core));
  const auto answers = request_all(shards_, core->self().name, get_state());
  wait_for_all(answers);
  optimizer_state out;
  out.optimizer = kind_->name;
  out.group_of = group_of_;
  out.all.groups = answers.front().get().groups;
  out.all.parameters.resize(group_of_.size());
  for (const auto& one : answers)
    for (const auto& parameter : one.get().parameters)
      out.all.parameters.at(parameter.index) = parameter;
  write_state(file, out);
}

void optimizer_client::load(const std::string& file) const {
  if (shards_.empty()) throw invalid_argument("this optimizer has no parameters");
  const auto saved = read_state(file);
  if (saved.optimizer != kind_->name)
    throw invalid_argument(
        fmt::format("{} is the state of a {}, not of a {}", file, saved.optimizer, kind_->name));
  const auto& [groups, parameters] = saved.all;
  if (saved.group_of != group_of_ || groups.size() != groups_.size() ||
      parameters.size() != group_of_.size())
    throw invalid_argument(
        fmt::format("{} is the state of {} parameters in {} groups, but the optimizer has {} in "
                    "{}, or they are grouped otherwise",
                    file, parameters.size(), groups.size(), group_of_.size(), groups_.size()));
  for (const auto& one : groups) (void)options_from(*kind_, one);
  const autograd::within none(0);
  std::vector<future<void>> answers;
  for (const auto& one : shards_) {
    put_state what;
    what.state.groups = groups;
    for (const auto i : one.parameters) what.state.parameters.push_back(parameters.at(i));
    answers.push_back(request_one(one.actor, what));
  }
  wait_for_all(answers);
  rates_->replace(*kind_, groups);
}

}  // namespace troupe::detail
