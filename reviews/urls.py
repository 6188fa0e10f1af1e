"""Every address of the console."""

from django.urls import URLPattern

from reviews.permissions import page
from reviews.views import acts, diff, enqueue, job, jobs

urlpatterns: list[URLPattern] = [
    page("", jobs.home, name="home"),
    page("jobs/", jobs.index, name="jobs"),
    page("jobs/new/", enqueue.form, name="enqueue"),
    page("jobs/<int:job_id>/", job.detail, name="job"),
    page("jobs/<int:job_id>/diff/", diff.show, name="job_diff"),
    page("jobs/<int:job_id>/cancellation/", acts.cancel, name="job_cancellation"),
    page("jobs/<int:job_id>/again/", acts.again, name="job_again"),
]
