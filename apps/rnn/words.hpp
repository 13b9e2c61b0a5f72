#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rnn {

/// Where the text is that Debian's package bible-kjv ships: installed with the program, or where
/// `make setup` puts it.
std::string default_text_file();

/// Reads a whole file. Throws troupe::invalid_argument, which names it and says why; of the default
/// file that is not there, the command that fetches it.
std::string read_text(const std::string& path);

/// The words of each line that has any. Letters, digits and bytes above 127 make words, with
/// apostrophes in between ("aaron's"); any other visible character is a word of its own. Letters
/// are made small. The end of a line is a word too, "\n".
std::vector<std::vector<std::string>> lines_of_words(std::string_view text);

}  // namespace rnn
