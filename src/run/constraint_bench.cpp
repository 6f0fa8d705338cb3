// What masks cost, by the place in a grammar: the first one of an answer there, those of new places as the text goes
// on, and that of a place seen before.
//   constraint_bench [file.gguf [rounds]]
// The vocabulary is that of the file: a real one of 128K tokens where the repository has its data beside it, else the
// bundled model's. CPU time of the thread, so that other work on the machine counts little.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/test_data_fixture.hpp"
#include "run/constraint.hpp"
#include "text/json_schema.hpp"
#include "weights/model_file.hpp"

namespace kvasir::run {
namespace {

const std::string kData = fixture::test_data("vocab/llama-bpe.gguf");
const std::string kBundled = KVASIR_SOURCE_DIR "/models/kvasir-books-4m.gguf";

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

constexpr const char* kSchema = R"({"properties": {
    "name": {"type": "string"}, "bio": {"type": "string", "maxLength": 200}, "n": {"type": "integer"}, "any": true}})";

// Masks are looked at behind `before`, then behind every token of `after`.
struct Place {
  const char* name;
  const char* before;
  const char* after;
};
constexpr Place kPlaces[] = {
    {"string", R"({"name": ")", "She lived in a large house and was never at home"},
    {"string with maxLength", R"({"bio": ")", "She lived in a large house and was never at home"},
    {"object's key", R"({)", R"("bio": )"},
    {"between values", R"({"name": "Anna")", R"(, "bio")"},
    {"any value", R"({"any": )", R"({"k": [1, 2.5, true, {"deep": null}]})"},
};

struct Costs {
  std::vector<double> first, next, known;  // milliseconds
};

class Bench {
 public:
  Bench(const text::Tokenizer& tokenizer, std::shared_ptr<const TokenOrder> order)
      : tokenizer_(tokenizer), order_(std::move(order)), logits_(static_cast<std::size_t>(tokenizer.size())) {}

  // Every round is an answer of its own: what it has worked out of the grammar is forgotten with it.
  Costs costs(const Place& place, int rounds) {
    const auto grammar = text::grammar_of_schema(nlohmann::ordered_json::parse(kSchema), text::Unknown::kRefuse);
    const std::vector<std::int32_t> ids = tokenizer_.encode(place.after);
    Costs costs;
    for (int round = 0; round < rounds; ++round) {
      Constraint c(grammar, order_, tokenizer_.size());
      c.accept(place.before);
      costs.first.push_back(mask(c));
      costs.known.push_back(mask(c));
      for (const std::int32_t id : ids) {
        KVASIR_CHECK(logits_[static_cast<std::size_t>(id)] == 0);
        c.accept(tokenizer_.piece(id));
        costs.next.push_back(mask(c));
      }
    }
    return costs;
  }

 private:
  double mask(Constraint& c) {
    std::fill(logits_.begin(), logits_.end(), 0.0f);
    const double start = thread_cpu_seconds();
    c.mask(logits_);
    return 1e3 * (thread_cpu_seconds() - start);
  }

  const text::Tokenizer& tokenizer_;
  const std::shared_ptr<const TokenOrder> order_;
  std::vector<float> logits_;
};

void run(const std::string& path, int rounds) {
  const auto file = weights::open_model_file(path);
  const auto tokenizer = text::make_tokenizer(file->metadata());
  if (!tokenizer) throw Error(Code::kBadInput, "has no tokenizer", path);
  const double start = thread_cpu_seconds();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  std::printf("%d tokens, put in order once in %.0f ms\n", tokenizer->size(), 1e3 * (thread_cpu_seconds() - start));
  std::printf("%-22s %13s %13s %13s %13s  ms\n", "place", "first", "next, median", "next, most", "seen before");
  Bench bench(*tokenizer, order);
  for (const Place& place : kPlaces) {
    const Costs c = bench.costs(place, rounds);
    std::printf("%-22s %13.3f %13.3f %13.3f %13.3f\n", place.name, median(c.first), median(c.next),
                *std::max_element(c.next.begin(), c.next.end()), median(c.known));
  }
}

}  // namespace
}  // namespace kvasir::run

int main(int argc, char** argv) {
  std::string path = argc > 1 ? argv[1] : kvasir::run::kData;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 9;
  if (argc < 2 && !std::filesystem::exists(path)) {
    std::printf("%s is not there: the bundled model's vocabulary, which is small\n", path.c_str());
    path = kvasir::run::kBundled;
  }
  try {
    kvasir::run::run(path, rounds);
  } catch (const kvasir::Error& e) {
    std::fprintf(stderr, "constraint_bench: %s\n", e.what());
    return 1;
  }
}
