# mcqa, on the base that all servers share. Rendered; a Dockerfile in the server's own folder replaces it.
FROM gym-base:0123456789ab
COPY . ./
CMD ["python", "-m", "gym.server.serve", "app.py"]
