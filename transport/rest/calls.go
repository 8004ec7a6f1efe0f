package rest

import (
	"errors"
	"net/http"
)

// What a master that does not lead says that only a leader can do; the words of deploy/master/Master.scala.
const (
	canSubmit = "accept driver submissions"
	canKill   = "kill drivers"
	canStatus = "request driver status"
	canClear  = "clear completed drivers and applications"
)

func (h *Handler) create(r *http.Request, _ string) reply {
	body, refused := h.readBody(r)
	if refused != nil {
		return *refused
	}
	defer h.bodies.give(int64(cap(body)))
	req, err := decodeRequest(body)
	if err == nil {
		err = h.allowedResource(req)
	}
	if err != nil {
		return h.malformed(err)
	}
	desc, err := h.describe(req)
	if err != nil {
		return h.malformed(err)
	}
	ctx, cancel := within(r)
	defer cancel()
	done, err := h.opts.Backend.Submit(ctx, Submission{Description: desc, ClientSparkVersion: req.ClientSparkVersion})
	var notAlive *NotAliveError
	var invalid *InvalidError
	f := fields{"success": done.Success, "message": done.Message}
	switch {
	case errors.As(err, &notAlive):
		f["message"] = notAlive.message(canSubmit)
	case errors.As(err, &invalid):
		return h.malformed(err)
	case err != nil:
		h.opts.Log.Warn("the outcome of a driver submission is not known", "error", err)
		// A JSON answer would make the client submit to the next master as well, and there might be two drivers.
		return reply{status: http.StatusInternalServerError,
			text: "It is not known whether the driver was accepted: this master stopped leading, or did not commit in time. Look for it before it is submitted again."}
	case done.Success:
		f["submissionId"] = done.ID
	}
	if len(req.unknown) > 0 {
		f["unknownFields"] = req.unknown
	}
	return reply{status: http.StatusOK, fields: h.answer("CreateSubmissionResponse", f)}
}

func (h *Handler) kill(r *http.Request, id string) reply {
	ctx, cancel := within(r)
	defer cancel()
	done, err := h.opts.Backend.Kill(ctx, id)
	f := fields{"success": done.Success, "message": done.Message, "submissionId": id}
	return h.settle("KillSubmissionResponse", canKill, f, err)
}

func (h *Handler) killAll(r *http.Request, _ string) reply {
	ctx, cancel := within(r)
	defer cancel()
	done, err := h.opts.Backend.KillAll(ctx)
	return h.settle("KillAllSubmissionResponse", canKill, fields{"success": done.Success, "message": done.Message}, err)
}

// clear on a master that does not lead is refused in the words by which a client goes on to the next one. Spark's standby
// clears its own empty lists and says that all is well (G-73).
func (h *Handler) clear(r *http.Request, _ string) reply {
	ctx, cancel := within(r)
	defer cancel()
	err := h.opts.Backend.Clear(ctx)
	return h.settle("ClearResponse", canClear, fields{"success": true, "message": ""}, err)
}

// settle is the answer to a call that may be repeated: where the outcome is unknown the client may ask elsewhere.
func (h *Handler) settle(action, can string, f fields, err error) reply {
	var notAlive *NotAliveError
	switch {
	case errors.As(err, &notAlive):
		f["success"], f["message"] = false, notAlive.message(can)
	case err != nil:
		return h.unavailable(err)
	}
	return reply{status: http.StatusOK, fields: h.answer(action, f)}
}

func (h *Handler) unavailable(err error) reply {
	h.opts.Log.Warn("a REST request could not be answered", "error", err)
	return h.failure(http.StatusServiceUnavailable, "This master stopped leading, or did not answer in time. Please ask again.")
}

// status is answered by the leader alone; another master names it (S14), as its own copy of the state may lag behind.
func (h *Handler) status(r *http.Request, id string) reply {
	ctx, cancel := within(r)
	defer cancel()
	st, err := h.opts.Backend.Status(ctx, id)
	f := fields{"submissionId": id, "success": st.Found, "driverState": st.State, "workerId": st.WorkerID, "workerHostPort": st.WorkerHostPort}
	var notAlive *NotAliveError
	switch {
	case errors.As(err, &notAlive):
		f["message"] = exceptionPrefix + "java.lang.Exception: " + notAlive.message(canStatus)
	case err != nil:
		return h.unavailable(err)
	default:
		f["message"] = statusMessage(st)
	}
	return reply{status: http.StatusOK, fields: h.answer("SubmissionStatusResponse", f.without(""))}
}

func statusMessage(st DriverStatus) string {
	switch {
	case st.Exception == "":
		return st.Note
	case st.Note == "":
		return exceptionPrefix + st.Exception
	}
	return exceptionPrefix + st.Exception + "\n" + st.Note
}

const exceptionPrefix = "Exception from the cluster:\n"

func (h *Handler) readyz(r *http.Request, _ string) reply {
	ctx, cancel := within(r)
	defer cancel()
	err := h.opts.Backend.Ready(ctx)
	if err == nil {
		return reply{status: http.StatusOK, fields: h.answer("ReadyzResponse", fields{"success": true, "message": ""})}
	}
	text := "Master is not ready."
	var notAlive *NotAliveError
	if errors.As(err, &notAlive) && notAlive.Leader != "" {
		text += " " + notAlive.Leader
	}
	return h.failure(http.StatusServiceUnavailable, text)
}

// malformed answers a request that can never be served. It begins as Spark's answer does, with the class of the exception,
// and then says what is wrong where Spark shows its stack (G-70).
func (h *Handler) malformed(err error) reply {
	return h.failure(http.StatusBadRequest, err.Error())
}
