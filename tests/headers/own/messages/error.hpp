#pragma once

/// A user's header that is called as one of Troupe's.
inline const char* own_error() { return "mine"; }
