#pragma once

#include <memory>
#include <string>
#include <troupe/troupe.hpp>
#include <vector>

#include "tests/rank_process.hpp"

namespace troupe::bench {

/// A row cannot be measured on this machine: its columns stay empty.
struct not_here : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Options of rank `rank` in a job of a row's own, which meets at `file`.
rpc_options own_rank_options(std::uint32_t rank, std::uint32_t world, const std::string& file);

/// The same without flow control and without a limit for hung nodes.
rpc_options plain(rpc_options options);

/// A folder to meet in; gone with this.
class meeting_folder {
public:
  meeting_folder();
  ~meeting_folder();
  meeting_folder(const meeting_folder&) = delete;
  meeting_folder& operator=(const meeting_folder&) = delete;

  std::string file(const std::string& name = "meet") const { return path_ + "/" + name; }

private:
  std::string path_;
};

/// Starts bench-rank with these arguments, by way of the command `through` if there is one.
std::unique_ptr<test::rank_process> start_rank(const std::vector<std::string>& arguments,
                                               std::vector<std::string> through = {});

}  // namespace troupe::bench
