#include "tests/bench/own_ranks.hpp"

#include <stdlib.h>

#include <filesystem>

namespace troupe::bench {

rpc_options own_rank_options(std::uint32_t rank, std::uint32_t world, const std::string& file) {
  rpc_options options;
  options.name = "worker" + std::to_string(rank);
  options.rank = rank;
  options.world_size = world;
  options.init_method = "file://" + file;
  options.rpc_timeout = std::chrono::minutes(10);
  return options;
}

rpc_options plain(rpc_options options) {
  options.window = {0, 0};
  options.hang_limit = std::chrono::milliseconds(0);
  return options;
}

meeting_folder::meeting_folder() {
  path_ = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
  if (!mkdtemp(path_.data())) throw std::runtime_error("no temporary folder");
}

meeting_folder::~meeting_folder() { std::filesystem::remove_all(path_); }

std::unique_ptr<test::rank_process> start_rank(const std::vector<std::string>& arguments,
                                               std::vector<std::string> through) {
  auto words = std::move(through);
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "bench-rank");
  words.insert(words.end(), arguments.begin(), arguments.end());
  return std::make_unique<test::rank_process>(std::move(words));
}

}  // namespace troupe::bench
