// Certificates made for a test.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

namespace kvasir::serve {

template <class T, void (*release)(T*)>
struct Free {
  void operator()(T* p) const { release(p); }
};

struct Certificate {
  std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>> key;
  std::unique_ptr<X509, Free<X509, X509_free>> cert;
  std::string cert_path, key_path;  // PEM
};

// `names`: subjectAltName as OpenSSL writes it, "DNS:localhost,IP:127.0.0.1"; "": none. Signed by `issuer`, or by
// itself. Valid from an hour ago until `seconds` from now.
inline Certificate make_certificate(const std::string& file, const std::string& names,
                                    const Certificate* issuer = nullptr, long seconds = 3600) {
  Certificate c;
  c.key.reset(EVP_EC_gen("P-256"));
  c.cert.reset(X509_new());
  X509* const x = c.cert.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), seconds);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "O", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(file.c_str()), -1, -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer->cert.get() : x));
  X509_set_pubkey(x, c.key.get());
  const auto extend = [&](int nid, const std::string& value) {
    std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION, X509_EXTENSION_free>> e(
        X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str()));
    EXPECT_TRUE(e && X509_add_ext(x, e.get(), -1)) << value;
  };
  extend(NID_basic_constraints, names.empty() ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!names.empty()) extend(NID_subject_alt_name, names);
  EXPECT_GT(X509_sign(x, issuer ? issuer->key.get() : c.key.get(), EVP_sha256()), 0);

  c.cert_path = testing::TempDir() + "kvasir_" + file + "_cert.pem";
  c.key_path = testing::TempDir() + "kvasir_" + file + "_key.pem";
  std::FILE* out = std::fopen(c.cert_path.c_str(), "w");
  PEM_write_X509(out, x);
  std::fclose(out);
  out = std::fopen(c.key_path.c_str(), "w");
  PEM_write_PrivateKey(out, c.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  return c;
}

}  // namespace kvasir::serve
