#include "agent/frontends/redis/connection/tls_authorities.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/frontends/redis/connection/tls.h"
#include "base/own_program.h"

/* Debian and Alpine; Fedora and RHEL; SUSE. */
static const char *const bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
    "/var/lib/ca-certificates/ca-bundle.pem"};

int tls_authorities_check_file(const char *source, const char *path, struct error *error) {
  struct stat file;
  if (access(path, R_OK) != 0 || stat(path, &file) != 0)
    return error_set(error, "%s: cannot read %.150s: %s", source, path, strerror(errno));
  if (S_ISDIR(file.st_mode))
    return error_set(error, "%s: %.150s is a directory", source, path);
  return S_ISREG(file.st_mode) ? 0 : error_set(error, "%s: %.150s is not a file", source, path);
}

int tls_authorities_reject_file(const char *source, const char *path, struct error *error) {
  return error_set(error,
                   "%s: no certificate in PEM in %.150s that can be used (RSA, P-256 or P-384; no "
                   "critical nameConstraints)",
                   source, path);
}

/* Returns true if the file holds at least one certificate that can be used. */
static bool add_file(mbedtls_x509_crt *chain, const char *path) {
  struct error ignored;
  mbedtls_x509_crt *last = chain;
  if (tls_authorities_check_file("", path, &ignored) != 0)
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

int tls_authorities_load(mbedtls_x509_crt *chain, const char *file, const char *directory,
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
  if (has_file && tls_authorities_check_file(file_source, file, error) != 0)
    return -1;
  if (has_file && !add_file(chain, file))
    return tls_authorities_reject_file(file_source, file, error);
  return has_directory ? load_directories(chain, directory, directory_source, error) : 0;
}
