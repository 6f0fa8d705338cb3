#include "client/link.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>

#include "base/error.hpp"

namespace kvasir::client {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

std::unique_ptr<ssl::context> make_tls(const Endpoint& endpoint) {
  if (!endpoint.tls) return nullptr;
  auto tls = std::make_unique<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  tls->set_verify_mode(ssl::verify_peer);
  error_code ec;
  if (endpoint.ca_file.empty()) {
    tls->set_default_verify_paths(ec);
    if (ec) throw Error(Code::kIo, "the system's certificate authorities cannot be read: " + ec.message(), "--url");
  } else {
    tls->load_verify_file(endpoint.ca_file, ec);
    if (ec)
      throw Error(Code::kBadInput,
                  "is '" + endpoint.ca_file + "', expected a file of certificates (PEM): " + ec.message(), "--ca-file");
    // Whoever gives the server's own certificate trusts that, whoever signed it.
    X509_STORE_set_flags(SSL_CTX_get_cert_store(tls->native_handle()), X509_V_FLAG_PARTIAL_CHAIN);
  }
  return tls;
}

// Whom the certificate must be for. Names are said in the handshake too (SNI), addresses never are.
void expect_host(SSL* tls, const std::string& host) {
  error_code ec;
  asio::ip::make_address(host, ec);
  bool set = false;
  if (ec) {
    X509_VERIFY_PARAM_set_hostflags(SSL_get0_param(tls), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    set = SSL_set1_host(tls, host.c_str()) == 1 && SSL_set_tlsext_host_name(tls, host.c_str()) == 1;
  } else {
    set = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host.c_str()) == 1;
  }
  if (!set) throw Error(Code::kBadInput, "is '" + host + "', expected a name that a certificate can have", "--url");
}

}  // namespace

DestinationPtr resolve(const Endpoint& endpoint) {
  auto to = std::make_shared<Destination>();
  to->endpoint = endpoint;
  to->tls = make_tls(endpoint);
  asio::io_context io;
  error_code ec;
  for (const auto& found : tcp::resolver(io).resolve(endpoint.host, endpoint.port, ec))
    to->addresses.push_back(found.endpoint());
  if (ec || to->addresses.empty())
    throw Error(Code::kIo, "cannot find this address: " + ec.message(), endpoint.host + ":" + endpoint.port);
  return to;
}

Link::Link(asio::io_context& io, DestinationPtr to) : to_(std::move(to)), socket_(io) {
  if (!to_->tls) return;
  tls_.emplace(socket_, *to_->tls);
  expect_host(tls_->native_handle(), to_->endpoint.host);
}

void Link::close() {
  error_code ec;
  socket_.close(ec);
}

std::string Link::handshake_error(error_code ec) {
  const long verdict = SSL_get_verify_result(tls_->native_handle());
  const std::string reason = X509_verify_cert_error_string(verdict);
  switch (verdict) {
    case X509_V_OK:
      break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "the server's certificate is not for '" + to_->endpoint.host + "', expected one whose name is in --url";
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "the server's certificate is out of its time (" + reason + "), expected a valid one";
    default:
      return "the server's certificate is not trusted (" + reason + "), expected one of an authority " +
             (to_->endpoint.ca_file.empty() ? "of this system; another's certificate goes to --ca-file"
                                            : "in --ca-file " + to_->endpoint.ca_file);
  }
  const int code = ERR_GET_REASON(static_cast<unsigned long>(ec.value()));
  if (ec.category() == asio::error::get_ssl_category() &&
      (code == SSL_R_WRONG_VERSION_NUMBER || code == SSL_R_PACKET_LENGTH_TOO_LONG || code == SSL_R_HTTP_REQUEST))
    return "the server speaks no TLS (" + ec.message() + "), expected http:// in --url or another port";
  return "no TLS connection: " + ec.message();
}

}  // namespace kvasir::client
