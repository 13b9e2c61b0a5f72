// A user's "messages/error.hpp" and Troupe's are two: what the user writes names the user's.
#include <troupe/troupe.hpp>

#include "messages/error.hpp"

const char* uses_own_header() { return own_error(); }
