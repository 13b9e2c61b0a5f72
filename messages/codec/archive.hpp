#pragma once

// Values as bytes, little-endian, without names or tags: the reader knows the types. sendable.hpp
// says which types can be sent and what each is written as; handles need a handle_translator.

#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"
#include "troupe/messages/codec/handle_translator.hpp"
