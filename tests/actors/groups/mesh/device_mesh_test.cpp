#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/device_mesh.hpp>
#include <unordered_set>

#include "tests/actors/groups/group_testing.hpp"

using namespace troupe;
using namespace troupe::test;
using testing::HasSubstr;

namespace {

using ranks = std::vector<std::int64_t>;

ranks listed(const at::Tensor& mesh) {
  const auto flat = mesh.contiguous().view(-1);
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

// A job of so many nodes, and `body(world, rank)` on each.
template <class F>
void on_world(int size, F body) {
  auto nodes = local_nodes(rank_names(size));
  on_each(nodes, [&](const node& one, int rank) { body(one.world(), rank); });
}

// Sums the ranks' own numbers, plus 1, along a group.
std::int64_t sum_along(const process_group& group, int rank) {
  auto value = at::full({1}, rank + 1, at::kLong);
  all_reduce(group, value);
  return value.item<std::int64_t>();
}

std::int64_t sum_of(const ranks& line) {
  std::int64_t out = 0;
  for (const auto one : line) out += one + 1;
  return out;
}

}  // namespace

// Of 1 to 4 dimensions: every rank's place, and the collectives along every dimension.
TEST(a_device_mesh, has_a_line_of_ranks_in_each_dimension) {
  for (const ranks& shape : {ranks{8}, ranks{2, 4}, ranks{4, 2}, ranks{2, 2, 2}, ranks{1, 2, 2, 2},
                             ranks{2, 1, 3}, ranks{5}, ranks{1}}) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const auto whole = at::arange(at::ones(shape).numel(), at::kLong).view(shape);
    on_world(static_cast<int>(whole.numel()), [&](const process_group& world, int rank) {
      const auto mesh = init_device_mesh(world, "cpu", shape);
      EXPECT_EQ(mesh.ndim(), static_cast<int>(shape.size()));
      EXPECT_EQ(mesh.shape(), shape);
      EXPECT_EQ(mesh.size(), whole.numel());
      EXPECT_TRUE(mesh.mesh().equal(whole));
      EXPECT_EQ(mesh.rank(), rank);
      const auto at = mesh.coordinate().value();
      auto mine = whole;
      for (const auto index : at) mine = mine[index];
      EXPECT_EQ(mine.item<std::int64_t>(), rank);
      for (int dim = 0; dim < mesh.ndim(); ++dim) {
        auto line = whole;
        for (int other = mesh.ndim() - 1; other >= 0; --other)
          if (other != dim) line = line.select(other, at[static_cast<std::size_t>(other)]);
        EXPECT_EQ(mesh.size(dim), line.numel());
        EXPECT_EQ(mesh.local_rank(dim), at[static_cast<std::size_t>(dim)]);
        EXPECT_EQ(mesh.group(dim).rank(), mesh.local_rank(dim));
        EXPECT_EQ(sum_along(mesh.group(dim), rank), sum_of(listed(line)));
      }
      EXPECT_EQ(mesh.all_groups().size(), shape.size());
    });
  }
}

// The examples of PyTorch's documentation.
TEST(a_device_mesh, is_sliced_by_names) {
  on_world(8, [](const process_group& world, int rank) {
    const auto two = init_device_mesh(world, "cpu", {2, 4}, {.mesh_dim_names = {"dp", "tp"}});
    const auto row = rank / 4, column = rank % 4;
    EXPECT_EQ(listed(two["tp"].mesh()), (ranks{row * 4, row * 4 + 1, row * 4 + 2, row * 4 + 3}));
    EXPECT_EQ(listed(two["dp"].mesh()), (ranks{column, column + 4}));
    EXPECT_EQ(two["tp"].local_rank(), column);
    EXPECT_EQ(two["tp"].group(), two.group("tp"));
    EXPECT_EQ(two["tp"].root(), two);
    EXPECT_EQ((two[{"dp", "tp"}]), two);

    const auto three =
        init_device_mesh(world, "cpu", {2, 2, 2}, {.mesh_dim_names = {"dp", "pp", "cp"}});
    const ranks dp_cp = rank % 4 < 2 ? ranks{0, 1, 4, 5} : ranks{2, 3, 6, 7};
    const ranks cp_dp = rank % 4 < 2 ? ranks{0, 4, 1, 5} : ranks{2, 6, 3, 7};
    EXPECT_EQ(listed(three[{"dp", "cp"}].mesh()), dp_cp);
    EXPECT_EQ(listed(three[{"cp", "dp"}].mesh()), cp_dp);
    EXPECT_EQ((three[{"cp", "dp"}].coordinate().value()), (ranks{rank % 2, rank / 4}));

    EXPECT_THAT(thrown_text<invalid_argument>([&] { two["pp"]; }),
                HasSubstr("Mesh dimension 'pp' does not exist. Available mesh dimensions are: "
                          "mesh_dim_names=(dp, tp)"));
    EXPECT_THROW((two[{"dp", "dp"}]), invalid_argument);
    EXPECT_THROW(two["tp"]["dp"], invalid_argument);
    EXPECT_THAT(thrown_text<invalid_argument>([&] { two.group(); }),
                HasSubstr("Found the DeviceMesh have 2 dimensions"));
    EXPECT_THROW(two.group(2), invalid_argument);
    EXPECT_THROW(two.group(-1), invalid_argument);
  });
}

TEST(a_device_mesh, is_flattened_unflattened_and_concatenated) {
  on_world(8, [](const process_group& world, int rank) {
    const auto mesh =
        init_device_mesh(world, "cpu", {2, 2, 2}, {.mesh_dim_names = {"dp", "cp", "tp"}});
    const auto flat = mesh[{"dp", "cp"}].flatten();
    EXPECT_EQ(flat.mesh_dim_names(), std::vector<std::string>{"dp_cp"});
    EXPECT_EQ(listed(flat.mesh()), (rank % 2 == 0 ? ranks{0, 2, 4, 6} : ranks{1, 3, 5, 7}));
    EXPECT_EQ(sum_along(flat.group(), rank), rank % 2 == 0 ? 16 : 20);
    EXPECT_EQ(mesh["dp_cp"], flat);
    EXPECT_EQ(mesh.group("dp_cp"), flat.group());
    EXPECT_EQ((mesh[{"dp", "cp"}].flatten().group()), flat.group());
    EXPECT_EQ((mesh[{"dp_cp", "tp"}].shape()), (ranks{4, 2}));
    EXPECT_EQ(mesh.flatten("all").group(), world);
    EXPECT_EQ(mesh["tp"].flatten(), mesh["tp"]);
    // Of dimensions that do not lie together, in another order.
    const auto apart = mesh[{"tp", "dp"}].flatten("apart");
    EXPECT_EQ(listed(apart.mesh()), (rank / 2 % 2 == 0 ? ranks{0, 4, 1, 5} : ranks{2, 6, 3, 7}));
    EXPECT_EQ(apart.local_rank(), rank % 2 * 2 + rank / 4);
    EXPECT_EQ(apart.group().rank(), apart.local_rank());
    EXPECT_THROW((mesh[{"cp", "tp"}].flatten("dp_cp")), invalid_argument);
    EXPECT_THROW((mesh[{"cp", "tp"}].flatten("dp")), invalid_argument);
    EXPECT_THROW((mesh[{"dp_cp", "dp"}]), invalid_argument);

    const auto line = init_device_mesh(world, "cpu", {8}, {.mesh_dim_names = {"world"}});
    const auto unflattened = line.unflatten("world", {2, 4}, {.mesh_dim_names = {"a", "b"}});
    EXPECT_TRUE(unflattened.mesh().equal(at::arange(8, at::kLong).view({2, 4})));
    EXPECT_EQ(sum_along(unflattened.group("b"), rank), rank < 4 ? 10 : 26);
    EXPECT_EQ(sum_along(unflattened.group("a"), rank), 2 * (rank % 4) + 6);
    EXPECT_EQ(unflattened["b"].root(), line);
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  line.unflatten(0, {3, 2}, {.mesh_dim_names = {"a", "b"}});
                }),
                HasSubstr("These must be equal for unflatten to work correctly"));
    EXPECT_THROW(line.unflatten("other", {2, 4}, {.mesh_dim_names = {"a", "b"}}), invalid_argument);
    EXPECT_THROW(line.unflatten(0, {2, 4}, {.mesh_dim_names = {"a"}}), invalid_argument);

    const auto joined = device_mesh::concatenate({mesh["tp"], mesh["dp"]});
    EXPECT_EQ(joined, (mesh[{"tp", "dp"}]));
    EXPECT_EQ(joined.group("tp"), mesh.group("tp"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  device_mesh::concatenate({mesh["tp"], mesh[{"dp", "tp"}]});
                }),
                HasSubstr("Cannot concatenate overlapping meshes"));
    EXPECT_THROW(device_mesh::concatenate({mesh["tp"], line}), invalid_argument);
    EXPECT_THROW(device_mesh::concatenate({}), invalid_argument);
  });
}

TEST(a_device_mesh, is_made_of_groups_that_there_are) {
  on_world(4, [](const process_group& world, int rank) {
    const auto row = world.split(rank / 2), column = world.split(rank % 2);
    const auto tensor = at::arange(4, at::kLong).view({2, 2});
    const auto mesh =
        device_mesh::from_group({column, row}, "cpu", tensor, {.mesh_dim_names = {"dp", "tp"}});
    EXPECT_TRUE(mesh.mesh().equal(tensor));
    EXPECT_EQ(mesh.group("tp"), row);
    EXPECT_EQ(mesh.flatten().group(), world);
    const auto made = init_device_mesh(world, "cpu", {2, 2}, {.mesh_dim_names = {"dp", "tp"}});
    EXPECT_EQ(mesh, made);
    EXPECT_NE(mesh, made["dp"]);
    EXPECT_EQ((std::unordered_set<device_mesh>{mesh, made, made["dp"], device_mesh()}.size()), 3U);

    const auto one = device_mesh::from_group(row, "cpu");
    EXPECT_EQ(listed(one.mesh()), (ranks{rank / 2 * 2, rank / 2 * 2 + 1}));
    EXPECT_EQ(one.local_rank(), rank % 2);
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  device_mesh::from_group({row, column}, "cpu", tensor, {});
                }),
                HasSubstr("for ProcessGroup with ranks ("));
    EXPECT_THROW(device_mesh::from_group({row}, "cpu", tensor, {}), invalid_argument);
    EXPECT_THROW(device_mesh::from_group(std::vector<process_group>(), "cpu", tensor, {}),
                 invalid_argument);
  });
}

TEST(a_device_mesh, leaves_ranks_out) {
  on_world(5, [](const process_group& world, int rank) {
    const auto tensor = at::tensor({4, 1, 3, 0}, at::kInt).view({2, 2});
    const device_mesh mesh(world, "cpu", tensor, {.mesh_dim_names = {"dp", "tp"}});
    EXPECT_TRUE(mesh.mesh().equal(tensor.to(at::kLong)));
    if (rank == 2) {
      EXPECT_FALSE(mesh.coordinate());
      EXPECT_THAT(thrown_text<invalid_argument>([&] { mesh.group("tp"); }),
                  HasSubstr("rank 2 is not in the mesh"));
      EXPECT_THROW(mesh["tp"].mesh(), invalid_argument);
      EXPECT_THROW(mesh.local_rank("tp"), invalid_argument);
    } else {
      EXPECT_EQ(sum_along(mesh.group("tp"), rank), rank == 4 || rank == 1 ? 7 : 5);
      EXPECT_EQ(sum_along(mesh.group("dp"), rank), rank == 4 || rank == 3 ? 9 : 3);
    }
    const auto flat = mesh.flatten();
    if (rank != 2) {
      EXPECT_EQ(sum_along(flat.group(), rank), 12);
    }
  });
}

TEST(a_device_mesh, overrides_the_backend_of_a_dimension) {
  on_world(4, [](const process_group& world, int rank) {
    mesh_options options{.mesh_dim_names = {"dp", "tp"}};
    options.backend_override["dp"] = {.name = "lines", .backend = "cpu:network"};
    options.backend_override[1] = {.name = "lines", .timeout = std::chrono::seconds(7)};
    const auto mesh = init_device_mesh(world, "cpu", {2, 2}, options);
    EXPECT_EQ(mesh.group("dp").backend(), "cpu:network");
    EXPECT_EQ(mesh.group("dp").description(), "mesh_dp");
    EXPECT_EQ(mesh.group("tp").backend(), world.backend());
    EXPECT_EQ(mesh.group("tp").timeout(), std::chrono::seconds(7));
    EXPECT_EQ(mesh.group("tp").name(), rank < 2 ? "lines/tp/0" : "lines/tp/2");
    EXPECT_EQ(sum_along(mesh.group("dp"), rank), 2 * (rank % 2) + 4);

    options.backend_override[0] = {};
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  init_device_mesh(world, "cpu", {2, 2}, options);
                }),
                HasSubstr("Found redundant dim index 0 and name dp in backend_override"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  init_device_mesh(world, "cpu", {2, 2}, {.backend_override = {{2, {}}}});
                }),
                HasSubstr("expected integers in range [0, 2)"));
  });
}

TEST(a_device_mesh, refuses_what_cannot_be) {
  on_world(2, [](const process_group& world, int rank) {
    const auto text = [&](const std::string& type, const ranks& shape, mesh_options options = {}) {
      return thrown_text<invalid_argument>([&] { init_device_mesh(world, type, shape, options); });
    };
    EXPECT_THAT(text("cpu", {2, 2}),
                HasSubstr("Mesh should not be bigger than default world size 2, but found 4"));
    EXPECT_THAT(text("cpu", {2}, {.mesh_dim_names = {"a", "a"}}),
                HasSubstr("Each mesh_dim_name must be unique"));
    EXPECT_THAT(text("cpu", {2}, {.mesh_dim_names = {"a", "b"}}),
                HasSubstr("mesh_shape and mesh_dim_names should have same length"));
    EXPECT_THAT(text("cpu:0", {2}), HasSubstr("Device type with index is not supported"));
    EXPECT_THAT(text("gpu", {2}), HasSubstr("'gpu'"));
    EXPECT_THAT(text("cuda", {2}), HasSubstr("has no backend for them"));
    EXPECT_FALSE(text("cpu", {0, 2}).empty());
    EXPECT_FALSE(text("cpu", {}).empty());
    const auto tensor = [&](const at::Tensor& mesh) {
      return thrown_text<invalid_argument>([&] { device_mesh(world, "cpu", mesh); });
    };
    EXPECT_THAT(tensor(at::tensor({0, 0})), HasSubstr("rank 0 is twice"));
    EXPECT_THAT(tensor(at::tensor({0, 7})), HasSubstr("rank 7 of the mesh is not in the group"));
    EXPECT_THAT(tensor(at::tensor({-1, 0})), HasSubstr("-1"));
    EXPECT_THAT(tensor(at::rand({2})), HasSubstr("CPU tensor of integers"));
    EXPECT_FALSE(tensor(at::Tensor()).empty());
    EXPECT_THROW(device_mesh().shape(), invalid_argument);
    EXPECT_EQ(device_mesh(), device_mesh());

    // The ranks are still in step.
    const auto unnamed = init_device_mesh(world, "cpu", {2});
    EXPECT_THROW(unnamed["dp"], invalid_argument);
    EXPECT_THROW(unnamed.flatten(), invalid_argument);
    EXPECT_EQ(sum_along(unnamed.group(), rank), 3);
  });
}

TEST(a_device_mesh, fails_on_all_ranks_that_disagree) {
  on_world(4, [](const process_group& world, int rank) {
    const auto shape = rank == 2 ? ranks{4, 1} : ranks{2, 2};
    EXPECT_THAT(thrown_text<collective_mismatch>([&] { init_device_mesh(world, "cpu", shape); }),
                testing::AllOf(HasSubstr("rank 0 has asked for shape (2, 2)"),
                               HasSubstr("rank 2 for shape (4, 1)")));
    EXPECT_EQ(init_device_mesh(world, "cpu", {2, 2}).size(), 4);
  });
}

TEST(a_device_mesh, is_the_current_one_of_its_scope) {
  on_world(1, [](const process_group& world, int) {
    EXPECT_THAT(thrown_text<invalid_argument>([] { current_device_mesh(); }),
                HasSubstr("No device mesh is currently active!"));
    const auto outer = init_device_mesh(world, "cpu", {1});
    const auto inner = init_device_mesh(world, "cpu", {1, 1});
    {
      const mesh_scope one(outer);
      EXPECT_EQ(current_device_mesh(), outer);
      {
        const mesh_scope two(inner);
        EXPECT_EQ(current_device_mesh(), inner);
      }
      EXPECT_EQ(current_device_mesh(), outer);
      std::thread([] { EXPECT_THROW(current_device_mesh(), invalid_argument); }).join();
    }
    EXPECT_THROW(current_device_mesh(), invalid_argument);
  });
}
