// UCX reads ucx.conf from the working folder as it is loaded, before any code of a program runs,
// and does not check its owner: a user who may write into the folder could have it load modules of
// his own. So each program changes to "/" before the constructors of its shared libraries run, and
// changes back before its own run. This file is linked into programs alone
// (transport/CMakeLists.txt says how), since a shared library has no code that runs so early.

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

// Sanitizers need not be there yet.
#define TROUPE_EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

namespace {

// Volatile: clang takes it for granted that nothing runs before the first constructor, and leaves
// one out that has nothing to do as long as this is -1.
volatile int working_folder = -1;

[[noreturn]] TROUPE_EARLY void end_early(const char* why) {
  static constexpr char what[] =
      "troupe: UCX must not read ucx.conf in the working folder, which others may have put there, "
      "but ";
  [[maybe_unused]] auto written = write(STDERR_FILENO, what, sizeof what - 1);
  written = write(STDERR_FILENO, why, strlen(why));
  _exit(126);
}

// Always: whose folder it is, and what is in it, may change between a look and UCX's.
TROUPE_EARLY void leave_working_folder(int, char**, char**) {
  working_folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (working_folder < 0)
    end_early("the working folder cannot be opened: start the program where it may enter\n");
  if (chdir("/") != 0) end_early("the program cannot go to / meanwhile\n");
}

// 101: before constructors without a number, which find the folder as it was.
__attribute__((constructor(101))) TROUPE_EARLY void come_back() {
  if (working_folder < 0) return;
  if (fchdir(working_folder) != 0) end_early("the program cannot come back to it\n");
  close(working_folder);
  working_folder = -1;
}

__attribute__((section(".preinit_array"),
               used)) void (*const first_of_all)(int, char**, char**) = leave_working_folder;

}  // namespace

// The symbol that the linker looks for.
extern "C" const char troupe_loads_ucx_elsewhere = 0;
