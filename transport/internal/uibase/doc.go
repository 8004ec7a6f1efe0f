// Package uibase is what the web UIs of masters and of workers share: the look of their pages, the headers of their
// answers, answers that are sent in chunks under deadlines, the places that bound how many are sent at once, and Spark's
// forms of JSON and of metrics. It knows neither masters nor workers, and no route.
package uibase
