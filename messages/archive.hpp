#pragma once

// Values as bytes, little-endian, without names or tags: the reader knows the types. sendable.hpp
// says which types can be sent and what each is written as; handles need a handle_translator.

#include "messages/decoder.hpp"
#include "messages/encoder.hpp"
#include "messages/handle_translator.hpp"
