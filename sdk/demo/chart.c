/* SPDX-License-Identifier: Apache-2.0 */
/* chart.c - two panels over one axis of epochs. Losses of single steps jump about, so each point is
 * the mean of a run of steps. */
#include "chart.h"

#include "svg.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 800, HEIGHT = 560, LEFT = 70, RIGHT = 20, MAX_POINTS = 300 };

#define LOSS_COLOUR     "#1f5fbf"
#define ACCURACY_COLOUR "#2a7f3f"
#define GRID_COLOUR     "#dddddd"
#define TEXT_COLOUR     "#333333"

/* Where values are drawn: x from 0 to x_max, y from y_min to y_max with a grid line each y_step. */
typedef struct panel {
    const char *title;
    double top, bottom; /* pixels */
    double x_max, y_min, y_max, y_step;
} panel_t;

/* Let the panel's y reach from `low` to `high`, moved outwards to multiples of 1, 2 or 5 times a power
 * of ten, four to ten of them. */
static void scale_panel(panel_t *panel, double low, double high)
{
    double quarter = fmax(high - low, 1e-3) / 4;
    double power = pow(10, floor(log10(quarter)));

    panel->y_step = quarter < 2 * power ? power : quarter < 5 * power ? 2 * power : 5 * power;
    panel->y_min = floor(low / panel->y_step) * panel->y_step;
    panel->y_max = fmax(ceil(high / panel->y_step) * panel->y_step, panel->y_min + panel->y_step);
}

static double x_of(const panel_t *panel, double x)
{
    return LEFT + x / panel->x_max * (WIDTH - LEFT - RIGHT);
}

/* What is too large to draw, or no number at all, lies on the upper edge. */
static double y_of(const panel_t *panel, double y)
{
    double drawn = y <= panel->y_max ? y : panel->y_max;

    return panel->bottom -
           (drawn - panel->y_min) / (panel->y_max - panel->y_min) * (panel->bottom - panel->top);
}

static void draw_frame(svg_t *svg, const panel_t *panel)
{
    int n_lines = (int)round((panel->y_max - panel->y_min) / panel->y_step);
    size_t n_epochs = (size_t)panel->x_max;
    size_t every = (n_epochs + 19) / 20; /* at most 20 numbers */

    svg_text(svg, LEFT, panel->top - 12, 16, SVG_START, TEXT_COLOUR, "%s", panel->title);
    for (int i = 0; i <= n_lines; i++) {
        double value = panel->y_min + i * panel->y_step;
        double y = y_of(panel, value);

        svg_line(svg, (double[]){LEFT, y, WIDTH - RIGHT, y}, 2, GRID_COLOUR, 1);
        svg_text(svg, LEFT - 8, y + 4, 12, SVG_END, TEXT_COLOUR, "%.4g", value);
    }
    for (size_t epoch = 0; epoch <= n_epochs; epoch += every) {
        double x = x_of(panel, (double)epoch);

        svg_line(svg, (double[]){x, panel->bottom, x, panel->bottom + 5}, 2, TEXT_COLOUR, 1);
        svg_text(svg, x, panel->bottom + 19, 12, SVG_MIDDLE, TEXT_COLOUR, "%zu", epoch);
    }
}

/* The highest finite value, or 0. */
static double highest_of(const double *values, size_t n)
{
    double highest = 0;

    for (size_t i = 0; i < n; i++) {
        highest = isfinite(values[i]) && values[i] > highest ? values[i] : highest;
    }
    return highest;
}

static void draw_losses(svg_t *svg, const double *losses, size_t n_steps, size_t n_epochs)
{
    panel_t panel = {.title = "training loss", .top = 50, .bottom = 270, .x_max = (double)n_epochs};
    size_t n_points = n_steps < MAX_POINTS ? n_steps : MAX_POINTS;
    double means[MAX_POINTS], points[2 * MAX_POINTS];

    for (size_t i = 0; i < n_points; i++) {
        size_t begin = i * n_steps / n_points, end = (i + 1) * n_steps / n_points;
        double sum = 0;

        for (size_t s = begin; s < end; s++) {
            sum += losses[s];
        }
        means[i] = sum / (double)(end - begin);
    }
    scale_panel(&panel, 0, highest_of(means, n_points));
    draw_frame(svg, &panel);
    for (size_t i = 0; i < n_points; i++) {
        points[2 * i] = x_of(&panel, ((double)i + 0.5) / (double)n_points * panel.x_max);
        points[2 * i + 1] = y_of(&panel, means[i]);
    }
    svg_line(svg, points, n_points, LOSS_COLOUR, 1.5);
}

static kvs_status_t draw_accuracies(svg_t *svg, const double *accuracies, size_t n_epochs)
{
    panel_t panel = {.title = "test accuracy after each epoch, in %",
                     .top = 330,
                     .bottom = 500,
                     .x_max = (double)n_epochs};
    double *points = calloc(2 * n_epochs, sizeof(*points));
    double lowest = 1;

    if (points == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a chart of %zu epochs", n_epochs);
    }
    for (size_t e = 0; e < n_epochs; e++) {
        lowest = accuracies[e] < lowest ? accuracies[e] : lowest;
    }
    scale_panel(&panel, 100 * lowest, 100 * highest_of(accuracies, n_epochs));
    draw_frame(svg, &panel);
    for (size_t e = 0; e < n_epochs; e++) {
        points[2 * e] = x_of(&panel, (double)(e + 1));
        points[2 * e + 1] = y_of(&panel, 100 * accuracies[e]);
        svg_rectangle(svg, points[2 * e] - 2, points[2 * e + 1] - 2, 4, 4, ACCURACY_COLOUR, "none");
    }
    svg_line(svg, points, n_epochs, ACCURACY_COLOUR, 1.5);
    free(points);
    return KVS_OK;
}

kvs_status_t chart_write(const char *path, const double *losses, size_t n_steps,
                         const double *accuracies, size_t n_epochs)
{
    svg_t svg;
    kvs_status_t status = svg_open(path, WIDTH, HEIGHT, &svg);

    if (status != KVS_OK) {
        return status;
    }
    draw_losses(&svg, losses, n_steps, n_epochs);
    status = draw_accuracies(&svg, accuracies, n_epochs);
    svg_text(&svg, WIDTH / 2, HEIGHT - 12, 12, SVG_MIDDLE, TEXT_COLOUR, "epochs");
    kvs_status_t closed = svg_close(&svg);

    return status != KVS_OK ? status : closed;
}
