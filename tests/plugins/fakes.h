/* SPDX-License-Identifier: Apache-2.0 */
/* fakes.h - manifests for the fake plugins, in one line: what a test doesn't say fits good.so. */
#ifndef FAKES_H
#define FAKES_H

typedef struct fake {
    const char *name;     /* of the plugin and its backend: "fake" */
    const char *version;  /* "1.0.0" */
    const char *library;  /* as in the manifest: the path of good.so */
    const char *arch;     /* this machine's */
    const char *abi;      /* "1.0" */
    const char *format;   /* of the manifest: "1.0" */
    const char *provides; /* text of the array: a backend of the plugin's name that fits fake.c */
    const char *provide;  /* more members of that backend, such as "\"aliases\": [\"x\"], " */
    const char *more;     /* more members of the whole, such as "\"requires\": {}, " */
} fake_t;

/* KVS_FAKE_DIR/VARIANT.so; static until the next call. */
const char *fake_library(const char *variant);
/* The manifest's text; static until the next call. */
const char *fake_text(const fake_t *fake);
/* Write it to DIR/NAME.json; gives that path, static until the next call. */
const char *fake_write(const char *dir, const fake_t *fake);
#define FAKE_WRITE(dir, ...) fake_write(dir, &(fake_t){__VA_ARGS__})
/* fake_write for a variant in the default place. */
#define FAKE_VARIANT(dir, variant_name, ...)                                                       \
    fake_write(dir, &(fake_t){.library = fake_library(variant_name), __VA_ARGS__})

#endif
