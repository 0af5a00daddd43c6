"""The questions about an applicant: what is asked, computed and answered, over HTTP or by a job."""
