#pragma once

#include <ATen/ops/full.h>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/lending_functions.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

/// Three nodes of one host, this one and two in processes of their own, that lend one another
/// tensors; or, as by default, only hand them over.
class lending_job : public testing::Test {
protected:
  explicit lending_job(rpc_options options = {}, bool lends = true)
      : file_((folder_.path() / "meet").string()) {
    for (const auto* rank : {"1", "2"})
      ranks_.push_back(std::make_unique<rank_process>(
          std::vector<std::string>{TROUPE_TEST_PROGRAM_DIR "/lending_program", rank, "3", file_,
                                   lends ? "lends" : "hands over"}));
    options.rank = 0;
    options.world_size = 3;
    options.init_method = "file://" + file_;
    options.lend_tensors = lends;
    options.tensor_memory_limit = std::size_t{1} << 30;
    node_.emplace(init_rpc(options));
    // Memory is mapped as nodes meet; the first messages may come before both know.
    for (const auto* name : {"worker1", "worker2"})
      EXPECT_TRUE(eventually([&] {
        node_->rpc_sync<&let_go>(name);
        return lends ? lends_to(name) : hands_over_to(name);
      }));
  }

  bool lends_to(const std::string& name) {
    const auto t = at::full({1 << 18}, 1.0F);
    const auto back = node_->rpc_sync<&give_back>(name, t);
    return back.storage().data() == t.storage().data();
  }

  bool hands_over_to(const std::string& name) {
    auto t = at::full({1 << 18}, 1.0F);
    const auto* const place = t.storage().data();
    return node_->rpc_sync<&give_back>(name, std::move(t)).storage().data() == place;
  }

  void end() {
    node_->shutdown(true, time_limit);
    EXPECT_TRUE(eventually([&] { return ranks_[0]->ended() && ranks_[1]->ended(); }));
    EXPECT_TRUE(ranks_[0]->ended_well() && ranks_[1]->ended_well());
  }

  temporary_folder folder_;
  std::string file_;
  std::vector<std::unique_ptr<rank_process>> ranks_;
  std::optional<node> node_;
};

}  // namespace troupe::test
