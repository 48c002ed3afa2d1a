/* SPDX-License-Identifier: Apache-2.0 */
/* svg.c - a grey image becomes one path for each of 16 shades, made of runs of equal pixels: text
 * that any viewer draws sharply, and far smaller than a rectangle a pixel. */
#include "svg.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

enum { N_SHADES = 16 };

kvs_status_t svg_open(const char *path, int width, int height, svg_t *ret_svg)
{
    FILE *file = fopen(path, "we");

    if (file == NULL) {
        return kvs_fail(KVS_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    }
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n",
            width, height, width, height);
    *ret_svg = (svg_t){file, path};
    svg_rectangle(ret_svg, 0, 0, width, height, "white", "none");
    return KVS_OK;
}

kvs_status_t svg_close(svg_t *svg)
{
    int failed;

    fputs("</svg>\n", svg->file);
    failed = ferror(svg->file);
    if (fclose(svg->file) != 0 || failed) {
        return kvs_fail(KVS_ERR_IO, "%s: cannot be written: %s", svg->path, strerror(errno));
    }
    return KVS_OK;
}

void svg_rectangle(svg_t *svg, double x, double y, double width, double height, const char *fill,
                   const char *stroke)
{
    fprintf(svg->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"%s\" "
            "stroke-width=\"3\"/>\n",
            x, y, width, height, fill, stroke);
}

void svg_line(svg_t *svg, const double *points, size_t n, const char *stroke, double width)
{
    fprintf(svg->file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" points=\"",
            stroke, width);
    for (size_t i = 0; i < n; i++) {
        fprintf(svg->file, "%s%.1f,%.1f", i > 0 ? " " : "", points[2 * i], points[2 * i + 1]);
    }
    fputs("\"/>\n", svg->file);
}

static void put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        default:
            fputc(*text, file);
        }
    }
}

void svg_text(svg_t *svg, double x, double y, int size, svg_anchor_t anchor, const char *fill,
              const char *format, ...)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(svg->file,
            "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\" fill=\"%s\">", x, y,
            size, anchors[anchor], fill);
    put_escaped(svg->file, text);
    fputs("</text>\n", svg->file);
}

static int shade_of(uint8_t pixel)
{
    return pixel * N_SHADES / 256;
}

/* One path over all runs of pixels of `shade`; nothing where there are none. */
static void put_shade(FILE *file, int shade, const uint8_t *pixels, size_t rows, size_t columns)
{
    int grey = shade * 255 / (N_SHADES - 1);
    size_t n_runs = 0;

    for (size_t y = 0; y < rows; y++) {
        for (size_t x = 0, end; x < columns; x = end) {
            int shade_here = shade_of(pixels[y * columns + x]);

            for (end = x + 1; end < columns && shade_of(pixels[y * columns + end]) == shade_here;) {
                end++;
            }
            if (shade_here == shade) {
                if (n_runs++ == 0) {
                    fprintf(file, "<path fill=\"#%02x%02x%02x\" d=\"", grey, grey, grey);
                }
                fprintf(file, "M%zu %zuh%zuv1h-%zuz", x, y, end - x, end - x);
            }
        }
    }
    if (n_runs > 0) {
        fputs("\"/>\n", file);
    }
}

void svg_grey_image(svg_t *svg, double x, double y, double scale, const uint8_t *pixels,
                    size_t rows, size_t columns)
{
    fprintf(svg->file,
            "<g transform=\"translate(%.1f %.1f) scale(%.3f)\" shape-rendering=\"crispEdges\">\n",
            x, y, scale);
    for (int shade = 0; shade < N_SHADES; shade++) {
        put_shade(svg->file, shade, pixels, rows, columns);
    }
    fputs("</g>\n", svg->file);
}
