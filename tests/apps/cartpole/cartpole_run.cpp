#include "tests/apps/cartpole/cartpole_run.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace troupe::test {

cartpole_run run_cartpole(int ranks, std::uint64_t seed, int rounds,
                          const std::vector<std::string>& more) {
  auto folder = (std::filesystem::temp_directory_path() / "troupe-cartpole-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  const auto path = folder + "/numbers.json";
  cartpole_run out;
  std::vector<std::string> words{"-n",
                                 std::to_string(ranks),
                                 std::string(TROUPE_APPS_DIR) + "/cartpole",
                                 "--seed",
                                 std::to_string(seed),
                                 "--episodes",
                                 std::to_string(rounds),
                                 "--json",
                                 path};
  words.insert(words.end(), more.begin(), more.end());
  out.launch = run_launcher(words);
  std::ifstream file(path);
  out.numbers = nlohmann::json::parse(file, nullptr, false);
  if (out.numbers.is_discarded()) out.numbers = nullptr;
  std::filesystem::remove_all(folder);
  return out;
}

}  // namespace troupe::test
