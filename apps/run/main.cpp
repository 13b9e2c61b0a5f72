/// troupe-run: starts the ranks of a job on this machine and supervises them.

#include <fmt/format.h>
#include <cstdlib>

#include <exception>

#include "troupe/apps/run/guard.hpp"
#include "troupe/apps/run/job.hpp"
#include "troupe/apps/run/options.hpp"
#include "troupe/apps/run/program.hpp"
#include "troupe/apps/run/standard_streams.hpp"
#include "troupe/apps/run/supervisor.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/leftovers.hpp"

namespace {

int say(const std::exception& failure, int exit_code) {
  fmt::print(stderr, "troupe-run: {}\n", failure.what());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::launcher;
  try {
    open_standard_streams();
    int exit_code = 0;
    const auto options = parse_options(argc, argv, exit_code);
    if (!options) return exit_code;
    const std::string path = find_program(options->command.front());
    const job job = make_job(*options);
    exit_code =
        guarded([&](int control) { return supervisor(*options, job, path, control).run(); });
    // Of ranks that were killed while they started.
    const char* folder = std::getenv("UCX_POSIX_DIR");
    troupe::transport::remove_leftovers(folder && *folder ? folder : "/dev/shm");
    return exit_code;
  } catch (const program_error& failure) {
    return say(failure, failure.code());
  } catch (const troupe::invalid_argument& failure) {
    return say(failure, 2);
  } catch (const std::exception& failure) {
    return say(failure, 1);
  }
}
