// The program that multiplies matrices on a mesh: its parts, its check, its runs.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/actors/groups/group_testing.hpp"
#include "tests/apps/run/launcher_harness.hpp"
#include "troupe/apps/mesh_matmul/record.hpp"
#include "troupe/apps/mesh_matmul/summa.hpp"

namespace {

using namespace mesh_matmul;
using testing::HasSubstr;

const std::string app = std::string(TROUPE_APPS_DIR) + "/mesh_matmul";

TEST(mesh_matmul, cuts_sides_into_parts) {
  for (std::int64_t size = 1; size < 40; ++size)
    for (std::int64_t parts = 1; parts < 9; ++parts) {
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const auto part = part_of(size, i, parts);
        EXPECT_EQ(part.begin, next);
        for (next = part.begin; next < part.end; ++next) EXPECT_EQ(part_with(size, next, parts), i);
      }
      EXPECT_EQ(next, size);
    }
  EXPECT_EQ(mesh_rows_of(6, 0), 2);
  EXPECT_EQ(mesh_rows_of(7, 0), 1);
  EXPECT_EQ(mesh_rows_of(16, 0), 4);
  EXPECT_EQ(mesh_rows_of(6, 3), 3);
  EXPECT_THROW(mesh_rows_of(6, 4), std::invalid_argument);
}

// Against the product of one process: also with sides that are shorter than the mesh.
TEST(mesh_matmul, has_the_product_of_one_process) {
  struct sizes {
    std::int64_t rows, columns, m, n, k, panel;
  };
  for (const auto& one :
       {sizes{1, 1, 5, 7, 9, 4}, sizes{2, 2, 17, 9, 23, 3}, sizes{2, 3, 30, 31, 32, 100},
        sizes{3, 1, 2, 8, 2, 1}, sizes{1, 4, 3, 3, 1, 1}}) {
    const auto a = block_of(1, {0, one.m}, {0, one.k}), b = block_of(2, {0, one.k}, {0, one.n});
    const auto expected = at::mm(a, b);
    const auto ranks = static_cast<int>(one.rows * one.columns);
    auto nodes = troupe::local_nodes(troupe::test::rank_names(ranks));
    troupe::test::on_each(nodes, [&](const troupe::node& node, int rank) {
      const auto mesh = troupe::init_device_mesh(node.world(), "cpu", {one.rows, one.columns});
      const product of(mesh, one.m, one.n, one.k, one.panel);
      const auto part = [](const at::Tensor& whole, extent rows, extent columns) {
        return whole.narrow(0, rows.begin, rows.size())
            .narrow(1, columns.begin, columns.size())
            .contiguous();
      };
      const auto mine = part(a, of.rows(), of.a_columns());
      EXPECT_TRUE(mine.equal(block_of(1, of.rows(), of.a_columns())));
      const auto other = part(b, of.b_rows(), of.columns());
      for (const bool blocking : {false, true}) {
        auto c = at::full({of.rows().size(), of.columns().size()}, 7.0f);
        of.multiply(mine, other, c, blocking);
        EXPECT_TRUE(c.equal(part(expected, of.rows(), of.columns())));
        EXPECT_TRUE(of.is_right(mine, other, c, 3));
        // One wrong element on one rank is seen by all.
        if (rank == ranks - 1 && c.numel() > 0) c.view(-1)[0] += 1;
        EXPECT_FALSE(of.is_right(mine, other, c, 3));
      }
    });
  }
}

TEST(mesh_matmul, reports_what_it_has_measured) {
  run_record run{.asked = {}, .mesh_rows = 2, .mesh_columns = 3, .operations = 4e9};
  run.seconds = {0.5, 0.25, 4};
  run.local_seconds = {0.25, 1, 0.125};
  run.right = true;
  EXPECT_EQ(run.efficiency(), 0.5);
  EXPECT_THAT(summary(run), testing::AllOf(HasSubstr("2 x 3 ranks"), HasSubstr("8.0 GFLOP/s"),
                                           HasSubstr("50 %"), HasSubstr("is right")));
  EXPECT_EQ(nlohmann::json::parse(to_json(run))["gflops"], 8);
  run.right = false;
  EXPECT_THAT(summary(run), HasSubstr("WRONG"));
}

TEST(mesh_matmul, multiplies_on_every_mesh) {
  const auto file = testing::TempDir() + "/mesh_matmul.json";
  for (const auto& [ranks, rows] :
       {std::pair{"1", "0"}, std::pair{"2", "2"}, std::pair{"4", "0"}}) {
    const auto end = troupe::test::run_launcher({"-n", ranks, app, "--m", "300", "--n", "200",
                                                 "--k", "400", "--panel", "60", "--repeats", "2",
                                                 "--mesh-rows", rows, "--json", file});
    EXPECT_EQ(end.code, 0) << end.out << end.err;
    EXPECT_THAT(end.out, HasSubstr("the result is right"));
    EXPECT_EQ(nlohmann::json::parse(std::ifstream(file))["right"], true);
  }
}

TEST(mesh_matmul, says_what_is_wrong_with_its_command_line) {
  const auto end = troupe::test::run_launcher({"-n", "2", app, "--mesh-rows", "3", "--m", "8"});
  EXPECT_NE(end.code, 0);
  EXPECT_THAT(end.err, HasSubstr("--mesh-rows 3 does not divide the 2 ranks of this job"));
  EXPECT_NE(troupe::test::run_launcher({"-n", "1", app, "--panel", "0"}).code, 0);
}

}  // namespace
