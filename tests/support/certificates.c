#include "tests/support/certificates.h"

#include "tests/support/tree.h"
#include "tests/test.h"

#define CURVE "ec -pkeyopt ec_paramgen_curve:P-256"

struct certificates {
  struct tree *tree;
};

const char *certificates_path(const struct certificates *self, const char *file) {
  return tree_path(self->tree, file);
}

/* `openssl ca`, unlike `openssl x509`, takes dates of the past. */
struct certificates *certificates_new(void) {
  struct certificates *self = malloc(sizeof *self);
  assert_non_null(self);
  assert_int_equal(tree_set_up((void **)&self->tree), 0);
  tree_write(self->tree, "config",
             "[ca]\ndefault_ca=own\n[own]\ndatabase=index\nserial=serial\nnew_certs_dir=.\n"
             "default_md=sha256\ndefault_days=30\npolicy=policy\ncopy_extensions=copy\n"
             "unique_subject=no\n[policy]\ncommonName=supplied\n",
             0600);
  tree_write(self->tree, "index", "", 0600);
  tree_write(self->tree, "serial", "01\n", 0600);
  return self;
}

void certificates_free(struct certificates *self) {
  if (self == NULL)
    return;
  assert_int_equal(tree_tear_down((void **)&self->tree), 0);
  free(self);
}

static void run(const struct certificates *self, const char *command) {
  char line[2048];
  int length = snprintf(line, sizeof line, "cd '%s' && { %s; } >log 2>&1 || { cat log; exit 1; }",
                        self->tree->path, command);
  assert_in_range(length, 1, sizeof line - 1);
  if (system(line) != 0)
    fail_msg("%s", command);
}

void certificates_add_authority(struct certificates *self, const char *name) {
  certificates_add_authority_with(self, name, CURVE, NULL);
}

void certificates_add_authority_with(struct certificates *self, const char *name, const char *key,
                                     const char *extension) {
  char command[512];
  (void)snprintf(command, sizeof command,
                 "openssl req -x509 -newkey %s -nodes -days 30 -subj '/CN=Authority %s' %s%s "
                 "-keyout %s.key -out %s.pem",
                 key, name, extension != NULL ? "-addext " : "", extension != NULL ? extension : "",
                 name, name);
  run(self, command);
}

void certificates_append(struct certificates *self, const char *name, const char *authority) {
  char command[512];
  (void)snprintf(command, sizeof command, "cat %s.pem >>%s.pem", authority, name);
  run(self, command);
}

void certificates_add(struct certificates *self, const struct certificate *certificate) {
  char command[1536];
  const char *name = certificate->name;
  const char *authority = certificate->authority != NULL ? certificate->authority : "ca";
  (void)snprintf(
      command, sizeof command,
      "openssl req -newkey %s -nodes -subj '/CN=%s' -addext 'subjectAltName=%s' %s%s "
      "-keyout %s.key -out request && openssl ca -batch -notext -config config -cert %s.pem "
      "-keyfile %s.key %s %s %s %s -in request -out %s.pem",
      certificate->key != NULL ? certificate->key : CURVE, name,
      certificate->names != NULL ? certificate->names : "DNS:localhost,IP:127.0.0.1",
      certificate->extension != NULL ? "-addext " : "",
      certificate->extension != NULL ? certificate->extension : "", name, authority, authority,
      certificate->begin != NULL ? "-startdate" : "",
      certificate->begin != NULL ? certificate->begin : "",
      certificate->end != NULL ? "-enddate" : "", certificate->end != NULL ? certificate->end : "",
      name);
  run(self, command);
}
