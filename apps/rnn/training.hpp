#pragma once

#include <string>
#include <troupe/troupe.hpp>

#include "troupe/apps/common/status_line.hpp"
#include "troupe/apps/rnn/options.hpp"
#include "troupe/apps/rnn/record.hpp"

namespace rnn {

/// Trains with the LSTM on this node, the embedding table on the next and the decoder on the last,
/// and shows the progress in `line`. Throws troupe::invalid_argument if there is no other node or
/// the text is unsuitable, and troupe::peer_lost if a node is lost.
training_record train_on_ranks(const troupe::node& node, const options& opts,
                               common::status_line& line);

/// The same in this process, step by step with the same numbers.
training_record train_here(const options& opts, common::status_line& line);

}  // namespace rnn
