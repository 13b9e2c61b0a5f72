#pragma once

#include <future>
#include <map>
#include <string>
#include <vector>

#include "tests/actors/node/job.hpp"
#include "troupe/actors/node/bootstrap.hpp"

namespace troupe::test {

/// A node to be, with as many GPUs as it pretends to have.
struct given {
  std::string name;
  int gpus = 0;
  std::map<std::string, device_map> maps{};
  std::vector<std::string> devices{};
};

inline rpc_options options_of(const given& what) {
  rpc_options options;
  options.name = what.name;
  options.device_maps = what.maps;
  options.devices = what.devices;
  options.init_timeout = time_limit;
  return options;
}

inline node become(const rpc_options& options, int gpus) {
  detail::device_directory here;
  if (gpus > 0) here.counts[memory_place::kind::cuda] = static_cast<std::uint8_t>(gpus);
  return node(join_job(options, here));
}

/// Nodes that meet in a file, each with devices and maps of its own.
class nodes_with_devices : public testing::Test {
protected:
  std::vector<std::future<node>> begin(const std::vector<given>& all, bool dynamic = false) {
    std::vector<std::future<node>> coming;
    for (const auto& one : all) {
      auto options = options_of(one);
      options.rank = static_cast<std::uint32_t>(coming.size());
      options.world_size = static_cast<std::uint32_t>(all.size());
      options.init_method = method_;
      options.admits_joiners = dynamic;
      coming.push_back(std::async(std::launch::async,
                                  [options, gpus = one.gpus] { return become(options, gpus); }));
    }
    return coming;
  }

  std::vector<node> start(const std::vector<given>& all, bool dynamic = false) {
    std::vector<node> nodes;
    for (auto& one : begin(all, dynamic)) nodes.push_back(one.get());
    return nodes;
  }

  node join(const given& what) {
    auto options = options_of(what);
    options.init_method = method_;
    options.joins_running = true;
    return become(options, what.gpus);
  }

private:
  temporary_folder folder_;

protected:
  const std::string method_ = "file://" + (folder_.path() / "meet").string();
};

}  // namespace troupe::test
