#pragma once

/*
 * Certificates of one test, made by openssl(1) in a directory that is removed with them. An
 * authority is in the same directory as its certificates. An error fails the test.
 *
 *   struct certificates *certificates = certificates_new();
 *   certificates_add_authority(certificates, "ca");            ca.pem, ca.key
 *   certificates_add(certificates, &(struct certificate){.name = "server"});
 *   certificates_path(certificates, "server.pem")              and server.key
 *   certificates_free(certificates);
 */
struct certificates;

struct certificate {
  const char *name;
  const char *authority; /* NULL: "ca" */
  const char *names;     /* subjectAltName; NULL: those of the loopback */
  const char *extension; /* one more extension, as "extendedKeyUsage=clientAuth"; NULL: none */
  const char *key;       /* for `openssl req -newkey`; NULL: an elliptic curve */
  const char *begin;     /* 20260101000000Z; NULL: now */
  const char *end;       /* the same; NULL: in 30 days */
};

struct certificates *certificates_new(void);
void certificates_free(struct certificates *self);

void certificates_add_authority(struct certificates *self, const char *name);

/* The same with another key, as for `openssl req -newkey`, and one more extension or NULL. */
void certificates_add_authority_with(struct certificates *self, const char *name, const char *key,
                                     const char *extension);

/* Appends the authority to the file, like a server that sends its whole chain. */
void certificates_append(struct certificates *self, const char *name, const char *authority);
void certificates_add(struct certificates *self, const struct certificate *certificate);

/* Valid until eight more paths were requested. */
const char *certificates_path(const struct certificates *self, const char *file);
