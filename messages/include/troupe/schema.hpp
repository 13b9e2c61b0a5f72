#pragma once

// Types that are sent by a schema of Cap'n Proto: TROUPE_SCHEMA.
#include "troupe/messages/codec/by_schema.hpp"
