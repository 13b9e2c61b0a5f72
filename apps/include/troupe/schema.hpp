#pragma once

// Types that are sent by a schema of Cap'n Proto: TROUPE_SCHEMA.
#include "messages/by_schema.hpp"
