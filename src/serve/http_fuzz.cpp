// Any bytes as what a client sends on a connection. Whatever is read as a request must be fit for logs and answers, and
// be the same however the network cut it; nobody comes in without a key; every answer is well-formed, whatever the
// request made it echo.
//
// Input: the first byte chooses the server (bit 0: bound to a loopback address, bit 1: keys, bit 2: any origin may
// call), the second one where the bytes are cut in two, the rest is what is sent.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "serve/admit.hpp"
#include "serve/exchange.hpp"
#include "serve/request_parser.hpp"
#include "serve/service_fixture.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr int kMostRequests = 16;  // of one connection

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

bool is_text(std::string_view line) {
  for (const char c : line)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) return false;
  return true;
}

std::shared_ptr<Context> server(int choice) {
  static FakeService service({.tokenizer = false});
  ServerOptions options{.any_model = false, .max_body = 256, .max_header = 1024};
  if (choice & 4) options.cors_origins = {"*"};
  // One line of the log for every request, whatever is in it.
  return std::make_shared<Context>(options, service, nullptr, [](std::string_view line) {
    require(is_text(line) && unicode::to_valid_utf8(line) == line);
  });
}

struct Message {
  std::optional<HttpRequest> request;  // nothing: the header was not read
  bool target_ok = true;
  bool whole = false;  // with its body
  error_code error;
};

// Feeds the parser until it is done, fails or wants more than the buffer has; what it took is gone from the buffer.
void feed(RequestParser& parser, std::string& buffer, error_code& ec) {
  while (!buffer.empty() && !parser.is_done()) {
    const std::size_t used = parser.put(boost::asio::buffer(buffer), ec);
    require(used <= buffer.size());
    buffer.erase(0, used);
    if (ec == http::error::need_more) {
      ec = {};
      return;
    }
    if (ec) return;
    require(used > 0);
  }
}

// The requests of a connection that brings these pieces and then no more.
std::vector<Message> read(const std::vector<std::string_view>& pieces, Context& context) {
  std::vector<Message> messages;
  std::string buffer;
  std::size_t next = 0;
  while (messages.size() < kMostRequests) {
    RequestParser parser;
    set_limits(parser, context.options);
    parser.eager(true);
    Message m;
    for (;;) {
      feed(parser, buffer, m.error);
      if (m.error || parser.is_done() || next == pieces.size()) break;
      buffer += pieces[next++];
    }
    if (!m.error && !parser.is_done() && !parser.got_some()) return messages;
    if (parser.is_header_done()) m.request = to_request(parser.get(), context, "127.0.0.1:9", m.target_ok);
    m.whole = parser.is_done();
    if (m.whole) m.request->body = parser.get().body();
    messages.push_back(std::move(m));
    if (!messages.back().whole) return messages;
  }
  return messages;
}

// What is whole is the same; of what is wrong the parser may take longer to say so, or wait for more, and by a line a
// header may be too long in pieces that is not in one.
void check_same(const std::vector<Message>& a, const std::vector<Message>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].error == http::error::header_limit || b[i].error == http::error::header_limit) return;
    require(a[i].whole == b[i].whole);
    if (!a[i].whole) continue;
    const HttpRequest &x = *a[i].request, &y = *b[i].request;
    require(x.method == y.method && x.path == y.path && x.query == y.query && x.headers == y.headers);
    require(x.body == y.body && x.keep_alive == y.keep_alive && x.http10 == y.http10);
  }
  require(a.size() == b.size());
}

void check_request(const Message& m, const ServerOptions& options) {
  const HttpRequest& r = *m.request;
  require(is_text(r.method) && r.method.find(' ') == std::string::npos);
  require(!m.target_ok || (r.path[0] == '/' && r.path.find('\0') == std::string::npos));
  for (const auto& [name, value] : r.headers) require(!name.empty() && is_text(name) && is_text(value));
  require(valid_request_id(r.id));
  require(r.body.size() <= static_cast<std::size_t>(options.max_body));
}

// Takes what is sent, and runs what is posted at once.
class Sheet final : public Wire {
 public:
  void post(std::function<void()> task) override { task(); }
  std::size_t backlog() const override { return 0; }
  void send(std::string bytes) override { sent += bytes; }
  void done(bool) override { ended = true; }
  void arm(double, std::function<void()>) override {}
  void abort() override {}
  std::string sent;
  bool ended = false;
};

// A head of lines `Name: value` and a body of the length that it says.
void check_answer(const std::string& sent, const HttpRequest& request) {
  const std::size_t end = sent.find("\r\n\r\n");
  require(end != std::string::npos && sent.starts_with("HTTP/1.1 "));
  std::optional<std::size_t> length;
  for (std::size_t at = sent.find("\r\n") + 2; at < end + 2;) {
    const std::size_t stop = sent.find("\r\n", at);
    const std::string_view line = std::string_view(sent).substr(at, stop - at);
    const std::size_t colon = line.find(": ");
    require(colon != std::string_view::npos && colon > 0 && is_text(line));
    if (line.substr(0, colon) == "Content-Length") {
      require(!length);
      length = std::stoul(std::string(line.substr(colon + 2)));
    }
    at = stop + 2;
  }
  const std::string body = sent.substr(end + 4);
  require(request.method == "HEAD" ? body.empty() : body.size() == length.value_or(0));
  if (!body.empty()) require(Json::accept(body));
}

void answer(const std::shared_ptr<Context>& context, HttpRequest request, Response response) {
  const auto sheet = std::make_shared<Sheet>();
  const auto exchange = std::make_shared<Exchange>(context, sheet, request, "none");
  exchange->reply(std::move(response));
  require(sheet->ended && !exchange->open());
  check_answer(sheet->sent, request);
}

void serve_all(const std::vector<Message>& messages, const std::shared_ptr<Context>& context, const KeyRing& keys,
               bool loopback) {
  for (const Message& m : messages) {
    if (m.request) check_request(m, context->options);
    if (m.error && is_protocol_error(m.error)) {
      const ApiError error = protocol_error(m.error);
      require(error.status == 400 || error.status == 413 || error.status == 431);
      answer(context, m.request.value_or(HttpRequest{.id = "req-0"}), error_response(error));
    }
    if (!m.request || m.error) continue;
    HttpRequest request = *m.request;
    Admission admission = admit(request, m.target_ok, keys, *context, loopback);
    if (admission.response) {
      answer(context, request, std::move(*admission.response));
      continue;
    }
    const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
    require(admission.route && admission.route->value->method == method);
    const bool open = admission.route->value->open;
    require(keys.empty() || open ||
            (request.tenant == "t" && request.header("authorization").find("secret") != std::string_view::npos));
  }
}

}  // namespace
}  // namespace kvasir::serve

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir::serve;
  if (size < 2) return 0;
  const int choice = data[0] & 7;
  static const KeyRing keys = KeyRing::parse("secret t\n", "keys"), none;
  static const std::shared_ptr<Context> servers[] = {server(0), server(4)};
  const auto& context = servers[choice >> 2];
  const std::string_view sent(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t cut = sent.size() * data[1] / 256;
  const auto whole = read({sent}, *context);
  check_same(whole, read({sent.substr(0, cut), sent.substr(cut)}, *context));
  serve_all(whole, context, choice & 2 ? keys : none, choice & 1);
  return 0;
}
