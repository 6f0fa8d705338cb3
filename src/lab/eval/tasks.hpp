// Tasks that look for something in a long text of a given length: made, not read from files.
#pragma once

#include <string>
#include <vector>

#include "lab/eval/probes.hpp"

namespace kvasir::lab::eval {

// passkey  one number in repetitive filler (passkey.cpp); with several questions to a text, a number per place
// needle   one city's number in varied sentences
// needles  eight cities' numbers in varied sentences, one is asked for
// hard     nothing but cities' numbers, with names that look alike
// pairs    a JSON object of random keys and values (Lost in the Middle)
// count    how often a word stands among varied sentences, 1 to 9 times
const std::vector<std::string>& task_names();

// As passkey_probes, for one of task_names(). The depth is that of the sentence that is asked for; of `count` it is not
// controlled. With options.questions > 1 a text holds as many facts at every depth, next to each other, and a probe
// asks for each: per length trials * depths * questions of them, those of one text in a row. Throws Error(kBadInput)
// for another name, for lengths that do not suffice, and for several questions to a text that has one answer.
std::vector<Probe> task_probes(const text::Tokenizer& tokenizer, const std::string& task,
                               const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& depths,
                               int trials, const ProbeOptions& options);

}  // namespace kvasir::lab::eval
