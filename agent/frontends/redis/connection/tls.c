/*
 * The library reads and writes through receive() and send_bytes(), which only move bytes;
 * write_tls() decides what may be repeated. The library keeps a record that could not be sent as a
 * whole, and the record's plain bytes count as written. Only the library knows whether bytes are
 * left, because it also sends alerts of its own.
 *
 * The library calls verify() for each certificate of the chain, from the authority down to the
 * server's own. verify() stores the first problem as text, because the certificate is gone later.
 */
#include "agent/frontends/redis/connection/tls.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mbedtls/build_info.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/psa_util.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ciphersuites.h>
#include <mbedtls/x509_crt.h>
#include <psa/crypto.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/own_program.h"

/* The most plain bytes of a record: RFC 8446, 5.1. */
#define RECORD_BYTES ((size_t)16384)

/* The most reads of the socket in a turn of the loop: two for each record. */
#define READS_PER_TURN 8

struct tls {
  mbedtls_ssl_config config;
  mbedtls_x509_crt trusted;
  mbedtls_x509_crt certificate;
  mbedtls_pk_context key;
  char *name; /* NULL: the host's */
};

struct tls_transport {
  struct transport transport; /* first */
  mbedtls_ssl_context ssl;
  char *expected; /* name or address in the certificate: the host, or tls_options.name */
  unsigned char address[16];
  size_t address_length; /* of `expected`; 0: it is a name */
  enum { SERVER_IS_SILENT, SERVER_SPEAKS_TLS, SERVER_SPEAKS_NO_TLS } server;
  bool is_up;           /* the handshake is done */
  bool has_certificate; /* this client sends one */
  unsigned reads;       /* since the socket last had no bytes */
  char why[512];        /* transport.error points here; "" until something is wrong */
};

static struct tls_transport *self_of(struct transport *transport) {
  return (struct tls_transport *)transport;
}

const char *tls_library(void) {
  return "mbedTLS " MBEDTLS_VERSION_STRING;
}

/* The library calls this for random bytes (MBEDTLS_PSA_CRYPTO_EXTERNAL_RNG). */
psa_status_t mbedtls_psa_external_get_random(mbedtls_psa_external_random_context_t *context,
                                             uint8_t *output, size_t size, size_t *length) {
  (void)context;
  for (*length = 0; *length < size;) {
    ssize_t n = getrandom(output + *length, size - *length, 0);
    CHECK(n > 0 || errno == EINTR);
    *length += n > 0 ? (size_t)n : 0;
  }
  return PSA_SUCCESS;
}

/* --- certificates ---------------------------------------------------------------------------- */

#define CUT "…"

struct text {
  char bytes[128]; /* ends with CUT if it was longer */
};

static void mark_cut(struct text *text, size_t length) {
  if (length >= sizeof text->bytes)
    memcpy(text->bytes + sizeof text->bytes - sizeof CUT, CUT, sizeof CUT);
}

/* Returns the common name if there is one, else the whole distinguished name. */
static struct text subject_of(const mbedtls_x509_name *name) {
  struct text text = {""};
  const mbedtls_x509_name *part = name;
  while (part != NULL && MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &part->oid) != 0)
    part = part->next;
  if (part != NULL)
    mark_cut(&text, (size_t)snprintf(text.bytes, sizeof text.bytes, "CN=%.*s", (int)part->val.len,
                                     (const char *)part->val.p));
  else if (mbedtls_x509_dn_gets(text.bytes, sizeof text.bytes, name) < 0)
    mark_cut(&text, sizeof text.bytes);
  return text;
}

static struct text date_of(const mbedtls_x509_time *time) {
  struct text text;
  (void)snprintf(text.bytes, sizeof text.bytes, "%04d-%02d-%02d %02d:%02d UTC", time->year,
                 time->mon, time->day, time->hour, time->min);
  return text;
}

/* Writes a DNS name or an address of the certificate; false for other types of names. */
static bool name_of(const mbedtls_x509_buf *name, char *out, size_t size) {
  int type = name->tag & MBEDTLS_ASN1_TAG_VALUE_MASK;
  if (type == MBEDTLS_X509_SAN_DNS_NAME)
    (void)snprintf(out, size, "%.*s", (int)name->len, (const char *)name->p);
  else if (type == MBEDTLS_X509_SAN_IP_ADDRESS && (name->len == 4 || name->len == 16))
    return inet_ntop(name->len == 4 ? AF_INET : AF_INET6, name->p, out, (socklen_t)size) != NULL;
  else
    return false;
  return true;
}

static struct text names_of(const mbedtls_x509_crt *certificate) {
  struct text text = {""};
  size_t length = 0;
  const mbedtls_x509_sequence *at = &certificate->subject_alt_names;
  for (; at != NULL && at->buf.p != NULL; at = at->next) {
    char name[80];
    if (!name_of(&at->buf, name, sizeof name))
      continue;
    if (length + strlen(name) + sizeof ", " CUT > sizeof text.bytes) {
      (void)snprintf(text.bytes + length, sizeof text.bytes - length, CUT);
      return text;
    }
    length += (size_t)snprintf(text.bytes + length, sizeof text.bytes - length, "%s%s",
                               length > 0 ? ", " : "", name);
  }
  return length > 0 ? text : subject_of(&certificate->subject);
}

#define UNREADABLE                                                                                 \
  "the server has a certificate that cannot be read here: with a key or a signature that is "      \
  "neither RSA nor of P-256 or P-384, or with a critical extension like nameConstraints"

__attribute__((format(printf, 3, 4))) static void set_why(struct tls_transport *self, int code,
                                                          const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(self->why, sizeof self->why, format, arguments);
  va_end(arguments);
  self->transport.code = code;
}

static void explain(struct tls_transport *self, const mbedtls_x509_crt *certificate,
                    uint32_t flags) {
  const struct text subject = subject_of(&certificate->subject);
  const struct text issuer = subject_of(&certificate->issuer);
  if (self->why[0] != '\0')
    return;
  if (certificate->raw.p == NULL) /* the library skipped one because of its signature */
    set_why(self, 0, UNREADABLE);
  else if (flags & MBEDTLS_X509_BADCERT_EXPIRED)
    set_why(self, CONNECTION_ERROR_EXPIRED, "the certificate of %s expired on %s (issuer %s)",
            subject.bytes, date_of(&certificate->valid_to).bytes, issuer.bytes);
  else if (flags & MBEDTLS_X509_BADCERT_FUTURE)
    set_why(self, CONNECTION_ERROR_NOT_YET_VALID,
            "the certificate of %s is not valid before %s (issuer %s): is this clock right?",
            subject.bytes, date_of(&certificate->valid_from).bytes, issuer.bytes);
  else if (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED)
    set_why(
        self, CONNECTION_ERROR_UNTRUSTED,
        "the certificate of %s is signed by %s, which is not trusted: pass the certificate of that "
        "authority with --cacert",
        subject.bytes, issuer.bytes);
  else if (flags & MBEDTLS_X509_BADCERT_CN_MISMATCH)
    set_why(
        self, CONNECTION_ERROR_OTHER_NAME,
        "the certificate is for %s, not for %s%s: connect by a name that it has, or pass that with "
        "--sni",
        names_of(certificate).bytes, self->expected,
        self->address_length > 0 ? " as a subjectAltName" : "");
  else if (flags != 0)
    set_why(
        self, 0,
        "the certificate of %s (issuer %s) has a key or a signature that is too weak, or may not "
        "sign others",
        subject.bytes, issuer.bytes);
}

static bool is_for_address(const struct tls_transport *self, const mbedtls_x509_crt *certificate) {
  const mbedtls_x509_sequence *at = &certificate->subject_alt_names;
  for (; at != NULL && at->buf.p != NULL; at = at->next)
    if ((at->buf.tag & MBEDTLS_ASN1_TAG_VALUE_MASK) == MBEDTLS_X509_SAN_IP_ADDRESS &&
        at->buf.len == self->address_length && memcmp(at->buf.p, self->address, at->buf.len) == 0)
      return true;
  return false;
}

/* The library checks names but not addresses, which TLS has no server name for (RFC 6066, 3). */
static int verify(void *context, mbedtls_x509_crt *certificate, int depth, uint32_t *flags) {
  struct tls_transport *self = context;
  if (depth == 0 && self->address_length > 0 && !is_for_address(self, certificate))
    *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
  explain(self, certificate, *flags);
  return 0;
}

/* --- errors ---------------------------------------------------------------------------------- */

#define WANTS_CERTIFICATE "the server wants a client's certificate: pass one with --cert and --key"

/* The alerts of RFC 8446, 6.2. */
static const struct {
  unsigned char alert;
  int code;
  const char *why;
} alerts[] = {
    {MBEDTLS_SSL_ALERT_MSG_NO_CERT, CONNECTION_ERROR_WANTS_CERTIFICATE, WANTS_CERTIFICATE},
    {MBEDTLS_SSL_ALERT_MSG_CERT_REQUIRED, CONNECTION_ERROR_WANTS_CERTIFICATE, WANTS_CERTIFICATE},
    {MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE, CONNECTION_ERROR_WANTS_CERTIFICATE,
     "the server refuses the handshake: it wants a client's certificate (--cert, --key), or has no "
     "cipher in common"},
    {MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION, 0, "the server speaks neither TLS 1.2 nor 1.3"},
    {MBEDTLS_SSL_ALERT_MSG_UNRECOGNIZED_NAME, CONNECTION_ERROR_UNKNOWN_NAME,
     "the server does not know this name: pass another with --sni"}};

/* Returns true if the alert is about the certificate of this client. */
static bool is_about_certificate(unsigned char alert) {
  return (alert >= MBEDTLS_SSL_ALERT_MSG_BAD_CERT && alert <= MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN) ||
         alert == MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA || alert == MBEDTLS_SSL_ALERT_MSG_DECRYPT_ERROR;
}

static void explain_alert(struct tls_transport *self) {
  const unsigned char alert = self->ssl.MBEDTLS_PRIVATE(in_msg)[1];
  for (size_t i = 0; i < sizeof alerts / sizeof *alerts; i++)
    if (alerts[i].alert == alert) {
      set_why(self, alerts[i].code, "%s", alerts[i].why);
      return;
    }
  if (!is_about_certificate(alert))
    set_why(self, 0, "the server ends TLS by alert %u", alert);
  else if (self->has_certificate)
    set_why(self, CONNECTION_ERROR_CERTIFICATE_REFUSED,
            "the server refuses the certificate of --cert");
  else
    set_why(self, CONNECTION_ERROR_WANTS_CERTIFICATE,
            "the server refuses this client: it may want a certificate, which --cert and --key "
            "pass");
}

/* A handshake message must fit into the library's buffer for one record. */
static bool is_too_long(const struct tls_transport *self) {
  return !self->is_up && self->ssl.MBEDTLS_PRIVATE(in_hslen) > MBEDTLS_SSL_IN_CONTENT_LEN;
}

static const char *result_text(const struct tls_transport *self, int result) {
  /* The library sets these two flags after verify(); before that, the flags are UINT32_MAX. */
  uint32_t flags = mbedtls_ssl_get_verify_result(&self->ssl);
  if (flags != UINT32_MAX &&
      (flags & (MBEDTLS_X509_BADCERT_KEY_USAGE | MBEDTLS_X509_BADCERT_EXT_KEY_USAGE)) != 0)
    return "the server's certificate is not for a server: its extendedKeyUsage lacks serverAuth, "
           "or its keyUsage digitalSignature";
  /* mbedtls/error.h: the ranges of X.509 errors, and of errors of keys. */
  bool of_certificates =
      (result <= -0x2080 && result >= -0x2F80) || (result <= -0x3880 && result >= -0x3F80);
  return of_certificates ? UNREADABLE : "TLS with this server fails";
}

static int fail(struct tls_transport *self, int result) {
  if (result == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE)
    explain_alert(self);
  if (self->why[0] != '\0')
    return TRANSPORT_FAILED;
  if (self->server == SERVER_SPEAKS_NO_TLS)
    set_why(self, CONNECTION_ERROR_SPEAKS_NO_TLS,
            "this port does not speak TLS: use redis://, or ssl=false");
  else if (is_too_long(self))
    set_why(self, 0,
            "the server sends more than 16 KiB of certificates, or of names of authorities, which "
            "is more than fits here: let it send its own and those between it and the authority "
            "alone");
  else
    set_why(self, 0, "%s (mbedTLS -0x%04X)", result_text(self, result), (unsigned)-result);
  return TRANSPORT_FAILED;
}

/* --- the socket ------------------------------------------------------------------------------ */

static int fail_by_errno(struct tls_transport *self) {
  set_why(self, errno, "%s", strerror(errno));
  return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

static int send_bytes(void *context, const unsigned char *bytes, size_t length) {
  struct tls_transport *self = context;
  ssize_t sent = send(self->transport.fd, bytes, length, MSG_NOSIGNAL);
  self->transport.wants_to_write = sent < (ssize_t)length;
  if (sent >= 0)
    return (int)sent;
  /* The server has closed. It may have sent an alert before, which the next read finds. */
  if (!self->is_up && (errno == EPIPE || errno == ECONNRESET)) {
    self->transport.wants_to_write = false;
    return (int)length;
  }
  return errno == EAGAIN || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_WRITE : fail_by_errno(self);
}

/* A server that sends without a pause must not block the loop. After READS_PER_TURN reads this
   reports that it waits. The library reads one record at a time, so all further bytes are in the
   socket, which wakes the loop again. */
static int receive(void *context, unsigned char *bytes, size_t size) {
  struct tls_transport *self = context;
  if (self->reads++ == READS_PER_TURN) {
    self->reads = 0;
    return MBEDTLS_ERR_SSL_WANT_READ;
  }
  ssize_t length = recv(self->transport.fd, bytes, size, 0);
  if (length < 0) {
    self->reads = 0;
    return errno == EAGAIN || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_READ : fail_by_errno(self);
  }
  if (length > 0 && self->server == SERVER_IS_SILENT) /* the types of records, RFC 8446, 5.1 */
    self->server = bytes[0] >= MBEDTLS_SSL_MSG_CHANGE_CIPHER_SPEC &&
                           bytes[0] <= MBEDTLS_SSL_MSG_APPLICATION_DATA
                       ? SERVER_SPEAKS_TLS
                       : SERVER_SPEAKS_NO_TLS;
  /* Otherwise, the library's result would be 0, as after empty records. */
  return length == 0 && self->is_up ? MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY : (int)length;
}

/* --- the transport --------------------------------------------------------------------------- */

static bool is_waiting(int result) {
  return result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE;
}

static int handshake(struct transport *transport) {
  struct tls_transport *self = self_of(transport);
  self->transport.wants_to_write = false;
  int result = mbedtls_ssl_handshake(&self->ssl);
  if (is_waiting(result))
    return TRANSPORT_WAITS;
  if (result == MBEDTLS_ERR_SSL_CONN_EOF) {
    set_why(self, CONNECTION_ERROR_SPEAKS_NO_TLS, "closed by the server during the TLS handshake");
    return TRANSPORT_FAILED;
  }
  self->is_up = result == 0;
  return result == 0 ? 0 : fail(self, result);
}

static ssize_t read_tls(struct transport *transport, void *bytes, size_t size) {
  struct tls_transport *self = self_of(transport);
  int result = mbedtls_ssl_read(&self->ssl, bytes, size);
  if (result == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
    return 0;
  if (is_waiting(result) || result == 0)
    return TRANSPORT_WAITS;
  return result > 0 ? result : fail(self, result);
}

static bool holds_bytes(const struct tls_transport *self) {
  return self->ssl.MBEDTLS_PRIVATE(out_left) > 0;
}

/* Sends the rest of the last record, which the library does before it looks at new bytes. Returns
   true if nothing is left. */
static bool send_rest(struct tls_transport *self, int *result) {
  self->transport.wants_to_write = false;
  *result = 0;
  if (!holds_bytes(self))
    return true;
  *result = mbedtls_ssl_write(&self->ssl, (const unsigned char *)"", 1);
  return *result > 0;
}

/* Copies the next bytes of the pieces, up to `size`; moves `piece` and `offset` past them. */
static size_t gather(const struct iovec *pieces, int count, int *piece, size_t *offset,
                     unsigned char *out, size_t size) {
  size_t length = 0;
  while (*piece < count && length < size) {
    size_t left = pieces[*piece].iov_len - *offset;
    size_t part = left < size - length ? left : size - length;
    if (part > 0) /* an empty piece may have no address */
      memcpy(out + length, (const char *)pieces[*piece].iov_base + *offset, part);
    length += part;
    *offset += part;
    if (part == left) {
      ++*piece;
      *offset = 0;
    }
  }
  return length;
}

static ssize_t write_tls(struct transport *transport, const struct iovec *pieces, int count) {
  struct tls_transport *self = self_of(transport);
  unsigned char record[RECORD_BYTES];
  int most = mbedtls_ssl_get_max_out_record_payload(&self->ssl);
  size_t size = most > 0 && (size_t)most < sizeof record ? (size_t)most : sizeof record;
  int piece = 0, result;
  size_t offset = 0, length;
  ssize_t written = 0;
  bool goes_on = send_rest(self, &result);
  while (goes_on && (length = gather(pieces, count, &piece, &offset, record, size)) > 0) {
    result = mbedtls_ssl_write(&self->ssl, record, length);
    goes_on = result > 0;
    CHECK(result < 0 || (size_t)result == length);
    if (result > 0 || result == MBEDTLS_ERR_SSL_WANT_WRITE)
      written += (ssize_t)length;
  }
  explicit_bzero(record, sizeof record);
  return result < 0 && !is_waiting(result) ? fail(self, result) : written;
}

static void free_tls(struct transport *transport) {
  struct tls_transport *self = self_of(transport);
  if (self->is_up && !holds_bytes(self))
    (void)mbedtls_ssl_close_notify(&self->ssl);
  mbedtls_ssl_free(&self->ssl);
  close(transport->fd);
  free(self->expected);
  free(self);
}

static const struct transport_type tls_type = {
    .handshake = handshake, .read = read_tls, .write = write_tls, .free = free_tls};

/* Returns the length of the address, or 0 for a name. A link-local address' zone is not in the
   certificate. */
static size_t parse_address(const char *host, unsigned char address[16]) {
  char text[INET6_ADDRSTRLEN];
  (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(host, "%"), host);
  if (inet_pton(AF_INET, text, address) == 1)
    return 4;
  return inet_pton(AF_INET6, text, address) == 1 ? 16 : 0;
}

struct transport *tls_transport_new(struct tls *tls, int fd, const char *host) {
  struct tls_transport *self = memory_allocate(sizeof *self);
  *self = (struct tls_transport){.transport = {.type = &tls_type, .fd = fd},
                                 .has_certificate = tls->certificate.version != 0};
  self->transport.error = self->why;
  /* A DNS name may end with a dot, which TLS leaves out (RFC 6066, 3). */
  const char *name = tls->name != NULL ? tls->name : host;
  size_t length = strlen(name);
  self->expected = memory_copy(name, length - (length > 1 && name[length - 1] == '.'));
  self->address_length = parse_address(self->expected, self->address);
  mbedtls_ssl_init(&self->ssl);
  if (mbedtls_ssl_setup(&self->ssl, &tls->config) != 0 ||
      mbedtls_ssl_set_hostname(&self->ssl, self->address_length > 0 ? NULL : self->expected) != 0)
    memory_exhausted("a TLS connection");
  mbedtls_ssl_set_verify(&self->ssl, verify, self);
  mbedtls_ssl_set_bio(&self->ssl, self, send_bytes, receive, NULL);
  return &self->transport;
}

/* --- authorities ----------------------------------------------------------------------------- */

/* Debian and Alpine; Fedora and RHEL; SUSE. */
static const char *const bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
    "/var/lib/ca-certificates/ca-bundle.pem"};

/* Returns 0 if the file that a flag or variable (`source`) names is a regular file that can be
   read, else -1 and the error. The library itself would block on a FIFO. */
static int check_file(const char *source, const char *path, struct error *error) {
  struct stat file;
  if (access(path, R_OK) != 0 || stat(path, &file) != 0)
    return error_set(error, "%s: cannot read %.150s: %s", source, path, strerror(errno));
  if (S_ISDIR(file.st_mode))
    return error_set(error, "%s: %.150s is a directory", source, path);
  return S_ISREG(file.st_mode) ? 0 : error_set(error, "%s: %.150s is not a file", source, path);
}

/* Sets the error for a file without a usable certificate. Returns -1. */
static int reject_file(const char *source, const char *path, struct error *error) {
  return error_set(error,
                   "%s: no certificate in PEM in %.150s that can be used (RSA, P-256 or P-384; no "
                   "critical nameConstraints)",
                   source, path);
}

/* Returns true if the file holds at least one certificate that can be used. */
static bool add_file(mbedtls_x509_crt *chain, const char *path) {
  struct error ignored;
  mbedtls_x509_crt *last = chain;
  if (check_file("", path, &ignored) != 0)
    return false;
  while (last->next != NULL)
    last = last->next;
  bool was_empty = chain->version == 0;
  (void)mbedtls_x509_crt_parse_file(chain, path); /* returns the number it skipped */
  return last->next != NULL || (was_empty && chain->version != 0);
}

/* Returns true if a file of the directory holds at least one certificate. */
static bool add_directory(mbedtls_x509_crt *chain, const char *path) {
  DIR *names = opendir(path);
  bool found = false;
  for (const struct dirent *entry; names != NULL && (entry = readdir(names)) != NULL;) {
    char file[PATH_MAX];
    int length = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
    if (entry->d_name[0] != '.' && length < (int)sizeof file)
      found |= add_file(chain, file);
  }
  if (names != NULL)
    closedir(names);
  return found;
}

/* Reads directories separated by ':', as OpenSSL does; some of them may be missing. */
static int load_directories(mbedtls_x509_crt *chain, const char *paths, const char *source,
                            struct error *error) {
  bool found = false;
  for (const char *path = paths; *path != '\0'; path += *path == ':') {
    char directory[PATH_MAX];
    size_t length = strcspn(path, ":");
    (void)snprintf(directory, sizeof directory, "%.*s", (int)length, path);
    found |= length > 0 && add_directory(chain, directory);
    path += length;
  }
  return found
             ? 0
             : error_set(error, "%s: no certificate in PEM in the files of %.150s", source, paths);
}

static int load_system(mbedtls_x509_crt *chain, struct error *error) {
  char directory[PATH_MAX], beside[PATH_MAX + sizeof TLS_BUNDLE];
  for (size_t i = 0; i < sizeof bundles / sizeof *bundles; i++)
    if (add_file(chain, bundles[i]))
      return 0;
  if (own_program_directory(directory, sizeof directory)) {
    (void)snprintf(beside, sizeof beside, "%s/" TLS_BUNDLE, directory);
    if (add_file(chain, beside))
      return 0;
  }
  return error_set(error, "TLS: this image has no bundle of certificate authorities, and there is "
                          "no " TLS_BUNDLE " beside the agent: pass one with --cacert FILE");
}

/* Adds the authorities of a file and a directory to the chain. If both are NULL, reads
   SSL_CERT_FILE and SSL_CERT_DIR of the environment, as OpenSSL does; if these are not set either,
   the first bundle of a distribution that exists, or TLS_BUNDLE. Certificates that cannot be parsed
   are skipped as long as one can. Returns 0, or -1 and the error. */
static int load_authorities(mbedtls_x509_crt *chain, const char *file, const char *directory,
                            struct error *error) {
  const char *file_source = "--cacert", *directory_source = "--cacertdir";
  if (file == NULL && directory == NULL) {
    file = getenv("SSL_CERT_FILE");
    directory = getenv("SSL_CERT_DIR");
    file_source = "SSL_CERT_FILE";
    directory_source = "SSL_CERT_DIR";
  }
  bool has_file = file != NULL && file[0] != '\0';
  bool has_directory = directory != NULL && directory[0] != '\0';
  if (!has_file && !has_directory)
    return load_system(chain, error);
  if (has_file && check_file(file_source, file, error) != 0)
    return -1;
  if (has_file && !add_file(chain, file))
    return reject_file(file_source, file, error);
  return has_directory ? load_directories(chain, directory, directory_source, error) : 0;
}

/* --- configuration --------------------------------------------------------------------------- */

/* AES-GCM first: almost every processor has instructions for it. */
static const int suites[] = {MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
                             MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
                             MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
                             MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
                             MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
                             MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
                             MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
                             MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                             MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
                             0};

static int load_own(struct tls *self, const struct tls_options *options, struct error *error) {
  const char *certificate = options->certificate, *key = options->key;
  if (check_file("--cert", certificate, error) != 0 || check_file("--key", key, error) != 0)
    return -1;
  if (mbedtls_x509_crt_parse_file(&self->certificate, certificate) != 0)
    return reject_file("--cert", certificate, error);
  if (mbedtls_pk_parse_keyfile(&self->key, key, NULL, mbedtls_psa_get_random, NULL) != 0)
    return error_set(error, "--key: no RSA or ECDSA key without a passphrase in PEM in %.150s",
                     key);
  if (mbedtls_pk_check_pair(&self->certificate.pk, &self->key, mbedtls_psa_get_random, NULL) != 0)
    return error_set(error, "--key: %.100s is not the key of --cert %.100s", key, certificate);
  return mbedtls_ssl_conf_own_cert(&self->config, &self->certificate, &self->key) == 0
             ? 0
             : error_set(error, "--cert: %.150s cannot be used", certificate);
}

static int load(struct tls *self, const struct tls_options *options, struct error *error) {
  mbedtls_ssl_config *config = &self->config;
  if (options->name != NULL && strlen(options->name) > MBEDTLS_SSL_MAX_HOST_NAME_LEN)
    return error_set(error, "--sni or sslHost: %.60s… is longer than a name can be", options->name);
  if (psa_crypto_init() != PSA_SUCCESS ||
      mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                  MBEDTLS_SSL_PRESET_DEFAULT) != 0)
    return error_set(error, "TLS: out of memory");
  mbedtls_ssl_conf_rng(config, mbedtls_psa_get_random, NULL);
  mbedtls_ssl_conf_ciphersuites(config, suites);
  mbedtls_ssl_conf_authmode(config, options->insecure ? MBEDTLS_SSL_VERIFY_NONE
                                                      : MBEDTLS_SSL_VERIFY_REQUIRED);
  if (!options->insecure &&
      load_authorities(&self->trusted, options->ca_file, options->ca_directory, error) != 0)
    return -1;
  mbedtls_ssl_conf_ca_chain(config, &self->trusted, NULL);
  return options->certificate != NULL ? load_own(self, options, error) : 0;
}

struct tls *tls_new(const struct tls_options *options, struct error *error) {
  struct tls *self = memory_allocate(sizeof *self);
  *self = (struct tls){0};
  mbedtls_ssl_config_init(&self->config);
  mbedtls_x509_crt_init(&self->trusted);
  mbedtls_x509_crt_init(&self->certificate);
  mbedtls_pk_init(&self->key);
  if (options->name != NULL)
    self->name = memory_copy(options->name, strlen(options->name));
  if (load(self, options, error) == 0)
    return self;
  tls_free(self);
  return NULL;
}

void tls_free(struct tls *self) {
  if (self == NULL)
    return;
  mbedtls_ssl_config_free(&self->config);
  mbedtls_x509_crt_free(&self->trusted);
  mbedtls_x509_crt_free(&self->certificate);
  mbedtls_pk_free(&self->key);
  mbedtls_psa_crypto_free();
  free(self->name);
  free(self);
}
