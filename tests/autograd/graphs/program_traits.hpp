#pragma once

#include <map>
#include <string>

#include "tests/autograd/graphs/program_generator.hpp"

namespace troupe::test {

/// What programs may have, and whether this one has it.
std::map<std::string, bool> traits_of(const random_program& program);

/// Has one of its steps this operation?
bool has(const random_program& program, operation what);

}  // namespace troupe::test
